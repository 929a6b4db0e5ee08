#include "probes/inference/shape.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/check.h"
#include "probes/inference/portable_math.h"

namespace mixproof::inference {
namespace {

Error invalid(const std::string& what) { return {Code::kInvalid, "arrivals: " + what}; }

bool has_rate(double rate_per_s) { return rate_per_s > 0 && std::isfinite(rate_per_s); }
bool is_rate(double rate_per_s) { return rate_per_s >= 0 && std::isfinite(rate_per_s); }

Status check_rates(const ArrivalProcess& process) {
  const bool base = process.kind == "square" || process.kind == "bursts";
  if (process.kind == "steps") {
    if (process.steps.empty()) return invalid("steps: none is given");
    for (const RateStep& step : process.steps)
      if (!is_rate(step.rate_per_s) || !(step.for_s > 0))
        return invalid("steps: a rate is negative, or a step has no length");
  } else if (process.kind == "ramp") {
    const bool zero =
        process.form == "exponential" && !(process.from_per_s > 0 && process.to_per_s > 0);
    if (!is_rate(process.from_per_s) || !is_rate(process.to_per_s) || zero || process.over_s < 0)
      return invalid("ramp: a rate is negative, or zero where the ramp is exponential");
  } else if (base ? !is_rate(process.rate_per_s) : !has_rate(process.rate_per_s)) {
    return invalid("the rate must be positive");
  }
  if (!has_rate(peak_rate(process))) return invalid("no rate is positive: no request would be due");
  return ok();
}

Status check_periods(const ArrivalProcess& process) {
  if (process.kind != "square" && process.kind != "bursts") return ok();
  if (!(process.period_s > 0)) return invalid(process.kind + ": the period must be positive");
  if (process.kind == "square") {
    if (process.factors.empty()) return invalid("square: no factor is given");
    for (const double factor : process.factors)
      if (!is_rate(factor)) return invalid("square: a factor is negative");
    return ok();
  }
  if (!is_rate(process.burst_per_s)) return invalid("bursts: a rate is negative");
  if (!(process.length_s > 0 && process.length_s <= process.period_s))
    return invalid("bursts: a burst must be shorter than its period");
  if (!(process.offset_s >= 0 && process.offset_s < process.period_s))
    return invalid("bursts: the offset must lie within the period");
  return ok();
}

}  // namespace

Gaps gaps_of(const ArrivalProcess& process) {
  if (process.kind == "trace") return Gaps::kTrace;
  const bool is_process =
      process.kind == "poisson" || process.kind == "constant" || process.kind == "gamma";
  const std::string& name = is_process ? process.kind : process.process;
  if (name == "constant") return Gaps::kConstant;
  return name == "gamma" ? Gaps::kGamma : Gaps::kExponential;
}

double gamma_shape(const ArrivalProcess& process) {
  return gaps_of(process) == Gaps::kGamma ? 1 / (process.cv * process.cv) : 1;
}

bool is_deterministic(const ArrivalProcess& process) {
  return gaps_of(process) == Gaps::kConstant || gaps_of(process) == Gaps::kTrace;
}

double peak_rate(const ArrivalProcess& process) {
  double peak = 0;
  if (process.kind == "trace") return process.trace.peak_per_s;
  if (process.kind == "steps") {
    for (const RateStep& step : process.steps) peak = std::max(peak, step.rate_per_s);
    return peak;
  }
  if (process.kind == "ramp") return std::max(process.from_per_s, process.to_per_s);
  if (process.kind == "square") {
    for (const double factor : process.factors) peak = std::max(peak, factor);
    return peak * process.rate_per_s;
  }
  if (process.kind == "bursts") return std::max(process.rate_per_s, process.burst_per_s);
  return process.rate_per_s;
}

Status check_process(const ArrivalProcess& process) {
  constexpr const char* kKinds[] = {"poisson", "constant", "gamma",  "steps",
                                    "ramp",    "square",   "bursts", "trace"};
  if (std::find(std::begin(kKinds), std::end(kKinds), process.kind) == std::end(kKinds))
    return invalid("unknown process \"" + process.kind + "\"");
  if (process.process != "poisson" && process.process != "constant" && process.process != "gamma")
    return invalid("unknown process \"" + process.process + "\"");
  if (gaps_of(process) == Gaps::kGamma && !(process.cv >= 0.05 && process.cv <= 20))
    return invalid("the coefficient of variation must lie between 0.05 and 20");
  if (process.kind == "trace") {
    if (!process.trace.path.empty() && process.trace.path.front() == '/') return ok();
    return invalid("trace: \"path\" must be absolute: the file lies on the node of the load");
  }
  TRY(check_periods(process));
  return check_rates(process);
}

double RateFunction::Piece::count_in(double seconds) const {
  if (slope == 0) return rate * seconds;
  if (exponential) return rate * (exp_of(slope * seconds) - 1) / slope;
  return (rate + 0.5 * slope * seconds) * seconds;
}

double RateFunction::Piece::seconds_to(double wanted) const {
  if (slope == 0) return rate > 0 ? wanted / rate : std::numeric_limits<double>::infinity();
  if (exponential) {
    const double grown = 1 + slope * wanted / rate;
    return grown > 0 ? log_of(grown) / slope : std::numeric_limits<double>::infinity();
  }
  const double square = rate * rate + 2 * slope * wanted;
  if (square < 0)
    return std::numeric_limits<double>::infinity();  // a falling rate never gets there
  const double sum = rate + std::sqrt(square);
  return sum > 0 ? 2 * wanted / sum : std::numeric_limits<double>::infinity();
}

void RateFunction::add(double begin_s, double end_s, double rate, double slope, bool exponential) {
  const double from_s = std::max(begin_s, 0.0), to_s = std::min(end_s, length_s_);
  if (!(to_s > from_s)) return;
  Piece piece{from_s, to_s, rate, slope, exponential};
  piece.count = piece.count_in(to_s - from_s);
  if (!pieces_.empty()) piece.before = pieces_.back().before + pieces_.back().count;
  pieces_.push_back(piece);
}

void RateFunction::add_ramp(const ArrivalProcess& process) {
  const double over_s = process.over_s > 0 ? process.over_s : length_s_;
  const double from = process.from_per_s, to = process.to_per_s;
  if (over_s > 0 && from != to) {
    const bool exponential = process.form == "exponential";
    add(0, over_s, from, exponential ? log_of(to / from) / over_s : (to - from) / over_s,
        exponential);
  } else {
    add(0, over_s, from);
  }
  add(over_s, length_s_, to);
}

// Bursts begin at offset + k period from the begin of the load.
void RateFunction::add_bursts(const ArrivalProcess& process, double load_begin_s) {
  const double first =
      std::floor((load_begin_s - process.offset_s) / process.period_s) * process.period_s +
      process.offset_s - load_begin_s;
  add(0, first, process.rate_per_s);
  for (double k = 0; first + k * process.period_s < length_s_; ++k) {
    const double begin = first + k * process.period_s, end = begin + process.length_s;
    add(begin, end, process.burst_per_s);
    add(end, first + (k + 1) * process.period_s, process.rate_per_s);
  }
}

RateFunction RateFunction::of(const ArrivalProcess& process, const SchedulePhase& phase) {
  RateFunction out;
  out.length_s_ = 1e-9 * static_cast<double>(phase.end_ns - phase.begin_ns);
  if (process.kind == "steps") {
    double begin_s = 0;
    for (const RateStep& step : process.steps) {
      out.add(begin_s, begin_s + step.for_s, step.rate_per_s);
      begin_s += step.for_s;
    }
    out.add(begin_s, out.length_s_, process.steps.back().rate_per_s);
  } else if (process.kind == "ramp") {
    out.add_ramp(process);
  } else if (process.kind == "square") {
    const auto count = static_cast<double>(process.factors.size());
    const double each_s = process.period_s / count;
    for (double k = 0; k * each_s < out.length_s_; ++k) {
      const auto at = static_cast<std::size_t>(k - count * std::floor(k / count));
      out.add(k * each_s, (k + 1) * each_s, process.rate_per_s * process.factors[at]);
    }
  } else if (process.kind == "bursts") {
    out.add_bursts(process, 1e-9 * static_cast<double>(phase.begin_ns));
  } else {
    CHECK(process.kind != "trace");
    out.add(0, out.length_s_, process.rate_per_s);
  }
  return out;
}

double RateFunction::expected() const { return count_until(length_s_); }

double RateFunction::count_until(double at_s) const {
  if (pieces_.empty() || at_s <= 0) return 0;
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), at_s,
                       [](double time, const Piece& piece) { return time < piece.begin_s; });
  const Piece& piece = *(after - 1);
  const double inside_s = std::min(at_s, piece.end_s) - piece.begin_s;
  double count = piece.before + piece.count_in(inside_s);
  if (at_s > piece.end_s) {
    const double last_rate = piece.exponential ? piece.rate * exp_of(piece.slope * inside_s)
                                               : piece.rate + piece.slope * inside_s;
    count += last_rate * (at_s - piece.end_s);
  }
  return count;
}

double RateFunction::time_of(double count, std::size_t& cursor) const {
  while (cursor < pieces_.size()) {
    const Piece& piece = pieces_[cursor];
    const double length_s = piece.end_s - piece.begin_s;
    if (count < piece.before + piece.count)
      return piece.begin_s + std::min(length_s, piece.seconds_to(count - piece.before));
    ++cursor;
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace mixproof::inference
