// The timeline as a picture: phases and faults above, then a panel for each load, all on one axis
// of seconds.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/base/text.h"
#include "reports/html.h"
#include "reports/page_parts.h"
#include "reports/svg.h"

namespace mixproof::page {
namespace {

constexpr double kLeft = 58, kRight = 14;  // of the panels within the picture
constexpr double kPhaseHeight = 26, kLaneHeight = 20, kAxisHeight = 34, kTitleHeight = 30,
                 kNoAnswerHeight = 18;
constexpr double kLatencyHeight = 190, kRateHeight = 96, kSignalHeight = 56, kMarkHeight = 18;
constexpr std::size_t kMostLanes = 12, kMostPanels = 4;

struct Panel {
  const RequestSeries* requests = nullptr;  // or
  const RateSeries* rate = nullptr;         // or
  const SignalSeries* signal = nullptr;
  double top = 0, bottom = 0;  // of the plot; its title stands above
  double height() const {
    if (requests != nullptr)
      return kTitleHeight + kLatencyHeight + (requests->unanswered > 0 ? kNoAnswerHeight : 0);
    return kTitleHeight + (rate != nullptr ? kRateHeight : kSignalHeight);
  }
};

struct Lane {
  Labelled place;
  bool is_fault = false, proved = true;
};

class Drawing {
 public:
  Drawing(const Json& report, const TimelineSeries& series, double width)
      : report_(report),
        series_(series),
        phases_(phase_spans(report)),
        faults_(fault_spans(report)),
        width_(width) {
    double end_s = 0;
    for (const auto* spans : {&phases_, &faults_})
      for (const Span& span : *spans) end_s = std::max(end_s, span.end_s);
    x_ = {0, std::max(end_s, 1e-3), kLeft, width - kRight, false};
    make_lanes();
    make_panels();
  }

  std::string take() {
    Svg svg(width_, height_);
    phases(svg);
    faults(svg);
    for (const Panel& panel : panels_) {
      if (panel.requests != nullptr)
        latency(svg, panel);
      else if (panel.rate != nullptr)
        rate(svg, panel);
      else
        signal(svg, panel);
    }
    axis(svg);
    lanes(svg);
    return svg.take(width_ < 600 ? "timeline narrow" : "timeline wide",
                    "Timeline of the run: phases, faults and loads over time. The tables below say "
                    "the same in words.");
  }

 private:
  void make_lanes() {
    for (const Span& fault : faults_)
      lanes_.push_back({{x_(fault.begin_s), x_(fault.end_s), fault.name}, true, fault.proved});
    for (const Json& event : list_at(object_at(report_, "timeline"), "events")) {
      const std::string kind = text_at(event, "kind");
      const bool at_end = kind == "stop" && text_at(event, "detail") == "end";
      const Json* at = member(event, "at_s");
      // Faults have bars, and checkpoints their marks below the rate where a recording tells them.
      const bool marked = kind == "checkpoint" && !series_.checkpoints.empty();
      if (kind == "fault" || marked || at_end || at == nullptr || !at->is_number()) continue;
      const double x = x_(at->get<double>());
      lanes_.push_back(
          {{x, x, kind + " " + (kind == "stop" ? "" : text_at(event, "what"))}, false, false});
    }
    std::stable_sort(lanes_.begin(), lanes_.end(),
                     [](const Lane& a, const Lane& b) { return a.place.from < b.place.from; });
    std::vector<Labelled> places;
    for (Lane& lane : lanes_) {
      lane.place.label = shortened(lane.place.label, 40);
      places.push_back(lane.place);
    }
    const int rows = place_labels(places, kLeft, width_ - kRight);
    for (std::size_t i = 0; i < places.size(); ++i) lanes_[i].place = places[i];
    lane_rows_ = std::min(static_cast<std::size_t>(rows), kMostLanes);
  }

  void make_panels() {
    for (const RequestSeries& one : series_.requests)
      if (panels_.size() < kMostPanels) panels_.push_back({.requests = &one});
    for (const RateSeries& one : series_.training)
      if (panels_.size() < 2 * kMostPanels) panels_.push_back({.rate = &one});
    for (const SignalSeries& one : series_.signals)
      if (panels_.size() < 3 * kMostPanels) panels_.push_back({.signal = &one});
    double y =
        kPhaseHeight + static_cast<double>(lane_rows_) * kLaneHeight + (lane_rows_ > 0 ? 6 : 0);
    for (Panel& panel : panels_) {
      panel.top = y + kTitleHeight;
      panel.bottom = y + panel.height();
      y = panel.bottom + (panel.rate != nullptr && has_checkpoints(*panel.rate) ? kMarkHeight : 0) +
          8;
    }
    plots_bottom_ = panels_.empty() ? y + 4 : y - 8;
    height_ = plots_bottom_ + kAxisHeight;
  }

  bool has_checkpoints(const RateSeries& rate) const {
    return std::any_of(series_.checkpoints.begin(), series_.checkpoints.end(),
                       [&](const CheckpointMark& mark) { return mark.load == rate.load; });
  }

  void phases(Svg& svg) const {
    for (std::size_t i = 0; i < phases_.size(); ++i) {
      const Span& phase = phases_[i];
      const double left = x_(phase.begin_s), right = x_(phase.end_s), settled = x_(phase.settled_s);
      svg.rect(i % 2 == 0 ? "phase" : "phase odd", left, 0, right - left, plots_bottom_);
      if (settled > left)
        svg.rect("settle", left, kPhaseHeight, settled - left, plots_bottom_ - kPhaseHeight);
      svg.rect(phase.proved ? "phase-bar" : "phase-bar cut", left + 0.5, 0, right - left - 1,
               kPhaseHeight - 4, 3);
      const std::string number = std::to_string(i + 1), name = number + " " + phase.name;
      const bool fits = text_width(name) + 8 <= right - left;
      if (fits || text_width(number) <= right - left)
        svg.text("phase-name", (left + right) / 2, 15.5, fits ? name : number, "middle");
    }
  }

  void faults(Svg& svg) const {
    for (const Span& fault : faults_) {
      const double left = x_(fault.begin_s), right = std::max(x_(fault.end_s), left + 1);
      svg.rect("fault-band", left, kPhaseHeight, right - left, plots_bottom_ - kPhaseHeight);
      for (const double edge : {left, right})
        svg.line("fault-edge", edge, kPhaseHeight, edge, plots_bottom_);
    }
  }

  void lanes(Svg& svg) const {
    for (const Lane& lane : lanes_) {
      if (static_cast<std::size_t>(lane.place.row) >= lane_rows_) continue;
      const double y = kPhaseHeight + 2 + lane.place.row * kLaneHeight,
                   middle = y + kLaneHeight / 2;
      const double from = lane.place.from, to = lane.place.to;
      if (lane.is_fault) {
        svg.rect(lane.proved ? "fault-bar" : "fault-bar unproved", from, y + 3,
                 std::max(to - from, 3.0), kLaneHeight - 6, 2);
      } else {
        svg.line("event-line", from, y, from, plots_bottom_);
        svg.path("event", "M" + coordinate(from) + " " + coordinate(middle - 6) + "l6 11h-12z");
      }
      if (lane.place.shown)
        svg.text("lane", lane.place.label_x + (lane.is_fault ? 0 : 4), middle + 4,
                 lane.place.label);
    }
  }

  void frame(Svg& svg, const Panel& panel, const std::string& title) const {
    svg.text("panel-title", kLeft, panel.top - 9, title);
    svg.line("axis", kLeft, panel.bottom, width_ - kRight, panel.bottom);
  }

  void y_tick(Svg& svg, double y, const std::string& words) const {
    svg.line("grid", kLeft, y, width_ - kRight, y);
    svg.text("tick", kLeft - 6, y + 4, words, "end");
  }

  void latency(Svg& svg, const Panel& panel) const {
    const RequestSeries& load = *panel.requests;
    double low = std::numeric_limits<double>::infinity(), high = 0;
    const auto include = [&](double value) {
      if (!std::isfinite(value) || value <= 0) return;
      low = std::min(low, value);
      high = std::max(high, value);
    };
    for (const RequestPoint& point : load.points) include(point.ttft_s);
    if (load.ttft_bound_s) include(*load.ttft_bound_s);
    if (!(high > 0)) low = 0.01, high = 1;
    const double top = panel.top + (load.unanswered > 0 ? kNoAnswerHeight : 0);
    const Scale y{low / 1.25, high * 1.4, panel.bottom, top, true};
    frame(svg, panel,
          load.load + (width_ < 600 ? ": time to first token, log"
                                    : ": time to first token (log scale), by scheduled time"));
    for (const double tick : decade_ticks(y.low, y.high, 9))
      if (load.unanswered == 0 || y(tick) > top + 4) y_tick(svg, y(tick), quantity(tick, "s"));
    points(svg, load, y, panel.top + kNoAnswerHeight / 2);
    if (load.unanswered > 0)
      svg.text("tick", kLeft - 6, panel.top + kNoAnswerHeight / 2 + 4, "none", "end");
    if (load.ttft_bound_s)
      bound(svg, kLeft, width_ - kRight, y(*load.ttft_bound_s),
            width_ < 600 ? "bound" : "bound " + quantity(*load.ttft_bound_s, "s"));
  }

  void bound(Svg& svg, double from, double to, double y, const std::string& words) const {
    svg.line("bound", from, y, to, y);
    svg.text("bound-name", to - 4, y - 5, words, "end");
  }

  void points(Svg& svg, const RequestSeries& load, const Scale& y, double unanswered_y) const {
    std::string good, bad, unanswered;
    for (const RequestPoint& point : load.points) {
      const std::string x = coordinate(x_(point.at_s));
      if (!std::isfinite(point.ttft_s))
        unanswered += "M" + x + " " + coordinate(unanswered_y - 4) + "l4 7h-8z";
      else if (point.good)
        good += "M" + x + " " + coordinate(y(point.ttft_s)) + "h0";
      else
        bad += "M" + coordinate(x_(point.at_s) - 3) + " " + coordinate(y(point.ttft_s) - 3) +
               "l6 6m0-6l-6 6";
    }
    svg.path("good", good);
    svg.path("bad", bad);
    svg.path("unanswered", unanswered);
  }

  void rate(Svg& svg, const Panel& panel) const {
    const RateSeries& load = *panel.rate;
    double high = 0;
    for (const auto& bin : load.bins) high = std::max(high, bin.steps_per_s);
    const Scale y{0, high > 0 ? high * 1.15 : 1, panel.bottom, panel.top, false};
    frame(svg, panel, load.load + ": training steps a second");
    for (const double tick : round_ticks(y.low, y.high, 3)) y_tick(svg, y(tick), digits(tick));
    std::string area, edge;
    double last_end_s = -1;
    for (const auto& bin : load.bins) {
      const std::string left = coordinate(x_(bin.begin_s)), right = coordinate(x_(bin.end_s)),
                        top = coordinate(y(bin.steps_per_s));
      const bool starts = std::fabs(bin.begin_s - last_end_s) > 1e-6;
      area += "M" + left + " " + coordinate(panel.bottom) + "V" + top + "H" + right + "V" +
              coordinate(panel.bottom) + "z";
      edge += (starts ? "M" + left + " " : "V") + top + "H" + right;
      last_end_s = bin.end_s;
    }
    svg.path("rate-area", area);
    svg.path("rate", edge);
    floors(svg, load, y);
    checkpoints(svg, load, panel.bottom + kMarkHeight / 2 + 1);
  }

  // A hole in the line where there was no data.
  void signal(Svg& svg, const Panel& panel) const {
    const SignalSeries& series = *panel.signal;
    double low = 0, high = 0;
    for (const auto& point : series.points) {
      low = std::min(low, point.value.value_or(0));
      high = std::max(high, point.value.value_or(0));
    }
    const Scale y{low, high > low ? high + (high - low) * 0.15 : low + 1, panel.bottom, panel.top,
                  false};
    frame(svg, panel, series.signal + ": signal");
    for (const double tick : round_ticks(y.low, y.high, 2)) y_tick(svg, y(tick), digits(tick));
    std::string steps;
    bool drawn = false;
    for (const auto& point : series.points) {
      const bool inside = point.value && point.at_s >= x_.low && point.at_s <= x_.high;
      if (inside)
        steps += (drawn ? "L" : "M") + coordinate(x_(point.at_s)) + " " +
                 coordinate(y(*point.value)) + (drawn ? "" : "h1");
      drawn = inside;
    }
    svg.path("rate", steps);
  }

  // "training.retained at least 0.6" as steps a second, over the phase that it judges.
  void floors(Svg& svg, const RateSeries& load, const Scale& y) const {
    for (const Json& check : list_at(report_, "checks")) {
      const Json& reference = object_at(object_at(check, "observed"), "evidence");
      const double least = number_at(object_at(check, "limit"), "at_least") *
                           number_at(reference, "reference_steps_per_s");
      if (text_at(check, "metric") != "training.retained" || text_at(check, "load") != load.load ||
          least <= 0)
        continue;
      for (const Span& phase : phases_)
        if (phase.name == text_at(check, "phase")) {
          const std::string words = "floor " + digits(least) + " /s";
          const double from = x_(phase.settled_s), to = x_(phase.end_s);
          svg.line("bound", from, y(least), to, y(least));
          if (text_width(words) + 8 < to - from)
            svg.text("bound-name", to - 4, y(least) - 5, words, "end");
        }
    }
  }

  void checkpoints(Svg& svg, const RateSeries& load, double y) const {
    std::string complete, torn;
    for (const CheckpointMark& mark : series_.checkpoints) {
      if (mark.load != load.load) continue;
      const std::string x = coordinate(x_(mark.at_s));
      if (mark.complete)
        complete += "M" + x + " " + coordinate(y - 5) + "l5 5-5 5-5-5z";
      else
        torn += "M" + coordinate(x_(mark.at_s) - 4) + " " + coordinate(y - 4) + "l8 8m0-8l-8 8";
    }
    svg.path("checkpoint", complete);
    svg.path("bad", torn);
    if (!complete.empty() || !torn.empty()) svg.text("tick", kLeft - 6, y + 4, "saved", "end");
  }

  void axis(Svg& svg) const {
    svg.line("axis", kLeft, plots_bottom_, width_ - kRight, plots_bottom_);
    const int about = std::max(2, static_cast<int>((width_ - kLeft - kRight) / 80));
    for (const double tick : round_ticks(x_.low, x_.high, about)) {
      svg.line("axis", x_(tick), plots_bottom_, x_(tick), plots_bottom_ + 4);
      svg.text("tick", x_(tick), plots_bottom_ + 17, digits(tick), "middle");
    }
    svg.text("tick", width_ - kRight, plots_bottom_ + 31,
             "seconds from the begin of the first phase", "end");
  }

  const Json& report_;
  const TimelineSeries& series_;
  std::vector<Span> phases_, faults_;
  std::vector<Lane> lanes_;
  std::vector<Panel> panels_;
  Scale x_;
  double width_, height_ = 0, plots_bottom_ = 0;
  std::size_t lane_rows_ = 0;
};

}  // namespace

std::vector<Span> phase_spans(const Json& report) {
  std::vector<Span> out;
  for (const Json& phase : list_at(object_at(report, "timeline"), "phases")) {
    if (member(phase, "begin_s") == nullptr) continue;
    const double begin_s = number_at(phase, "begin_s");
    out.push_back({text_at(phase, "name"), "", begin_s,
                   std::max(begin_s, number_at(phase, "end_s")),
                   number_at(phase, "settled_s", begin_s), flag_at(phase, "complete")});
  }
  return out;
}

std::vector<Span> fault_spans(const Json& report) {
  std::vector<Span> out;
  double last_s = 0;
  for (const Span& phase : phase_spans(report)) last_s = std::max(last_s, phase.end_s);
  for (const Json& fault : list_at(object_at(report, "safety"), "faults")) {
    const std::string id = text_at(fault, "id");
    std::string name = fault_words(report, fault);
    if (const std::size_t on = name.find(" on "); on != std::string::npos) name.erase(on, 3);
    Span span{std::move(name), id, -1, last_s, 0, false};
    for (const Json& event : list_at(object_at(report, "timeline"), "events")) {
      if (text_at(event, "kind") != "fault" || text_at(event, "what") != id) continue;
      const std::string state = text_at(event, "state");
      const double at_s = number_at(event, "at_s");
      if (span.begin_s < 0 && (state == "injected" || state == "effective"))
        span.begin_s = std::max(0.0, at_s);
      span.proved = state == "clean";
      span.end_s = state == "clean" ? at_s : last_s;
    }
    if (span.begin_s < 0) continue;
    span.end_s = std::max(span.begin_s, span.end_s);
    out.push_back(std::move(span));
  }
  return out;
}

std::string timeline_svg(const Json& report, const TimelineSeries& series, double width) {
  return Drawing(report, series, width).take();
}

}  // namespace mixproof::page
