#include "reports/svg.h"

#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "reports/html.h"

namespace mixproof {
namespace {

constexpr double kAverageWidth = 0.56;  // of a character of a sans-serif face, in its size
constexpr double kGap = 6;

std::string attribute(const char* name, double value) {
  return " " + std::string(name) + "=\"" + coordinate(value) + "\"";
}

std::string class_of(std::string_view style) { return " class=\"" + std::string(style) + "\""; }

}  // namespace

std::string coordinate(double value) {
  std::string out = format("%.1f", std::isfinite(value) ? value : 0);
  if (out.ends_with(".0")) out.resize(out.size() - 2);
  return out == "-0" ? "0" : out;
}

double text_width(std::string_view text, double size) {
  const auto characters = std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  });
  return static_cast<double>(characters) * kAverageWidth * size;
}

void Svg::rect(std::string_view style, double x, double y, double width, double height,
               double radius) {
  body_ += "<rect" + class_of(style) + attribute("x", x) + attribute("y", y) +
           attribute("width", std::max(0.0, width)) + attribute("height", std::max(0.0, height)) +
           (radius > 0 ? attribute("rx", radius) : "") + "/>\n";
}

void Svg::line(std::string_view style, double x1, double y1, double x2, double y2) {
  body_ += "<line" + class_of(style) + attribute("x1", x1) + attribute("y1", y1) +
           attribute("x2", x2) + attribute("y2", y2) + "/>\n";
}

void Svg::path(std::string_view style, const std::string& steps) {
  if (!steps.empty()) body_ += "<path" + class_of(style) + " d=\"" + steps + "\"/>\n";
}

void Svg::text(std::string_view style, double x, double y, std::string_view text,
               std::string_view anchor) {
  body_ += "<text" + class_of(style) + attribute("x", x) + attribute("y", y) +
           (anchor == "start" ? "" : " text-anchor=\"" + std::string(anchor) + "\"") + ">" +
           escape_html(text) + "</text>\n";
}

std::string Svg::take(std::string_view style, std::string_view label) const {
  const std::string role = label.empty()
                               ? " aria-hidden=\"true\""
                               : " role=\"img\" aria-label=\"" + escape_html(label) + "\"";
  return "<svg" + class_of(style) + " viewBox=\"0 0 " + coordinate(width_) + " " +
         coordinate(height_) + "\"" + role + " focusable=\"false\">\n" + body_ + "</svg>\n";
}

double Scale::operator()(double value) const {
  double share = high > low ? (value - low) / (high - low) : 0;
  if (logarithmic) share = value > low ? std::log(value / low) / std::log(high / low) : 0;
  return from + std::clamp(share, 0.0, 1.0) * (to - from);
}

std::vector<double> round_ticks(double low, double high, int about) {
  std::vector<double> out;
  if (!(high > low) || about < 1) return out;
  const double raw = (high - low) / about, decade = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * decade;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * decade >= raw * 0.999) step = factor * decade;
  for (double n = std::ceil(low / step - 1e-9); n * step <= high * (1 + 1e-9); ++n)
    out.push_back(n * step);
  return out;
}

std::vector<double> decade_ticks(double low, double high, int most) {
  const auto of = [&](std::initializer_list<double> factors) {
    std::vector<double> out;
    for (int power = static_cast<int>(std::floor(std::log10(low)));
         power <= std::ceil(std::log10(high)); ++power)
      for (const double factor : factors) {
        const double tick = factor * std::pow(10, power);
        if (tick >= low * 0.999 && tick <= high * 1.001) out.push_back(tick);
      }
    return out;
  };
  for (const auto& factors :
       {std::initializer_list<double>{1, 2, 5}, std::initializer_list<double>{1, 3}})
    if (std::vector<double> ticks = of(factors); std::ssize(ticks) <= most) return ticks;
  return of({1});
}

int place_labels(std::vector<Labelled>& spans, double left, double right) {
  std::vector<double> taken;  // by row: where its last span or label ends
  for (Labelled& span : spans) {
    const double width = text_width(span.label);
    const bool behind = span.to + kGap + width <= right, before = span.from - kGap - width >= left;
    span.shown = behind || before;
    span.label_x = behind || !before ? span.to + kGap : span.from - kGap - width;
    const double begin = span.shown ? std::min(span.from, span.label_x) : span.from;
    const double end = span.shown ? std::max(span.to, span.label_x + width) : span.to;
    std::size_t row = 0;
    while (row < taken.size() && taken[row] + kGap > begin) ++row;
    if (row == taken.size()) taken.push_back(0);
    taken[row] = end;
    span.row = static_cast<int>(row);
  }
  return static_cast<int>(taken.size());
}

}  // namespace mixproof
