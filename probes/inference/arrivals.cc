#include "probes/inference/arrivals.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "harness/base/random.h"
#include "harness/base/text.h"
#include "probes/inference/portable_math.h"
#include "probes/inference/trace.h"

namespace mixproof::inference {
namespace {

constexpr std::size_t kMaxRequests = 10'000'000;

// Four letters each, so that a tokeniser without them in its vocabulary still sees prompts of one
// length.
constexpr std::array<std::string_view, 64> kWords = {
    "able", "acid", "area", "army", "away", "baby", "back", "ball", "band", "bank", "base",
    "bath", "bear", "beat", "bell", "bird", "blue", "boat", "body", "bone", "book", "born",
    "bowl", "busy", "cake", "call", "calm", "card", "care", "cash", "city", "clay", "club",
    "coal", "coat", "cold", "cook", "corn", "cost", "crew", "crop", "dark", "data", "date",
    "dawn", "deal", "deep", "desk", "door", "dust", "duty", "east", "edge", "exit", "face",
    "fact", "farm", "fast", "fish", "flat", "food", "ford", "gate", "gift"};

Status check_phases(std::span<const SchedulePhase> phases) {
  for (std::size_t p = 0; p < phases.size(); ++p)
    if (phases[p].end_ns < phases[p].begin_ns ||
        (p > 0 && phases[p].begin_ns < phases[p - 1].end_ns))
      return Error{Code::kInvalid, "phase " + phases[p].name +
                                       " overlaps the one before it or ends before it begins"};
  return ok();
}

Status check_count(double expected) {
  if (expected <= static_cast<double>(kMaxRequests)) return ok();
  return Error{Code::kInvalid,
               format("arrivals: %.0f requests are more than %zu", expected, kMaxRequests)};
}

// The gap before the next arrival, on the axis of expected counts.
double next_gap(const ArrivalProcess& process, double shape, bool first, Random& random) {
  if (gaps_of(process) == Gaps::kConstant) return first ? 0.5 : 1;
  if (gaps_of(process) == Gaps::kExponential) return unit_exponential(random);
  if (!first) return unit_gamma(shape, random);
  return (1 - random.unit()) * unit_gamma(shape + 1, random) * (shape + 1) / shape;
}

// Times within [begin, end) of one phase.
std::vector<std::int64_t> rescaled_times(const ArrivalProcess& process, const SchedulePhase& phase,
                                         Random random) {
  const RateFunction rate = RateFunction::of(process, phase);
  const double shape = gamma_shape(process), expected = rate.expected();
  std::vector<std::int64_t> times;
  times.reserve(static_cast<std::size_t>(expected * 1.1) + 16);
  double count = 0;  // summed as double: exact to nanoseconds for over a month
  std::size_t cursor = 0;
  while (times.size() <= 2 * kMaxRequests) {
    count += next_gap(process, shape, times.empty(), random);
    if (count >= expected) break;
    const double at_s = rate.time_of(count, cursor);
    if (!(at_s < rate.length_s())) break;
    const std::int64_t at = phase.begin_ns + std::llround(at_s * 1e9);
    if (at >= phase.end_ns) break;
    times.push_back(at);
  }
  return times;
}

std::vector<std::int64_t> ticks(const SchedulePhase& phase, double rate_per_s) {
  std::vector<std::int64_t> times;
  // Ticks at (k + 1/2) / rate from the begin of the load: none falls on its first instant.
  double k = std::max(0.0, std::floor(1e-9 * static_cast<double>(phase.begin_ns) * rate_per_s) - 1);
  while (true) {
    const std::int64_t at = std::llround((k + 0.5) / rate_per_s * 1e9);
    k += 1;
    if (at >= phase.end_ns) return times;
    if (at >= phase.begin_ns) times.push_back(at);
  }
}

// Due times of a phase, and what a trace says about the lengths.
struct Due {
  std::vector<std::int64_t> times;
  std::vector<RequestLengths> lengths;  // empty without a trace
};

Result<Due> replay(const Trace& trace, bool loop, const SchedulePhase& phase) {
  Due out;
  for (std::int64_t round = phase.begin_ns; round < phase.end_ns; round += trace.period_ns) {
    for (const TraceRequest& request : trace.requests) {
      if (round + request.at_ns >= phase.end_ns) break;
      out.times.push_back(round + request.at_ns);
      out.lengths.push_back(request.lengths);
    }
    TRY(check_count(static_cast<double>(out.times.size())));
    if (!loop) break;
  }
  return out;
}

std::uint64_t word_seed(std::uint64_t seed, std::uint32_t index) {
  return Random(seed + index, "prompt words").next();
}

// Little-endian: one hash on every machine.
void append(std::string& bytes, std::uint64_t value) {
  std::array<char, sizeof(value)> out{};
  if constexpr (std::endian::native == std::endian::little)
    std::memcpy(out.data(), &value, sizeof(value));
  else
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<char>((value >> 8 * i) & 0xff);
  bytes.append(out.data(), out.size());
}

std::string hash_of(const Schedule& schedule) {
  std::string bytes;
  bytes.reserve(24 * schedule.arrivals.size() + 80);
  append(bytes, schedule.seed);
  for (const Arrival& arrival : schedule.arrivals) {
    append(bytes, static_cast<std::uint64_t>(arrival.at_ns));
    append(bytes, (std::uint64_t{arrival.phase} << 32) | arrival.salt);
    append(bytes, (std::uint64_t{arrival.prompt_words} << 32) | arrival.answer_tokens);
  }
  bytes += schedule.trace_sha256;
  return sha256_hex(bytes);
}

}  // namespace

Result<Schedule> draw_schedule(const ArrivalProcess& process, std::span<const SchedulePhase> phases,
                               std::uint64_t seed, const Lengths& lengths) {
  TRY(check_process(process));
  TRY(check_phases(phases));
  TRY(check_lengths(lengths, process.kind == "trace"));
  Schedule schedule;
  schedule.seed = seed;
  std::optional<Trace> trace;
  double expected = 0;
  if (process.kind == "trace") {
    trace = TRY(load_trace(process.trace, seed));
    schedule.trace_format = trace->format;
    schedule.trace_sha256 = trace->sha256;
    schedule.trace_requests = trace->in_file;
    schedule.trace_shortened = trace->shortened;
  } else {
    for (const SchedulePhase& phase : phases)
      expected += RateFunction::of(process, phase).expected();
    TRY(check_count(expected));
    schedule.arrivals.reserve(static_cast<std::size_t>(expected * 1.02) + 1024);
  }
  LengthDraws draws(lengths, seed);
  for (std::uint32_t p = 0; p < phases.size(); ++p) {
    const SchedulePhase& phase = phases[p];
    Due due;
    if (trace)
      due = TRY(replay(*trace, process.trace.loop, phase));
    else if (process.kind == "constant")
      due.times = ticks(phase, process.rate_per_s);
    else
      due.times = rescaled_times(process, phase, Random(seed, "arrivals/" + phase.name));
    Random salts(seed, "salts/" + phase.name);
    for (std::size_t i = 0; i < due.times.size(); ++i) {
      const auto index = static_cast<std::uint32_t>(i);
      const RequestLengths drawn =
          draws.at(index, due.lengths.empty() ? RequestLengths{} : due.lengths[i]);
      schedule.arrivals.push_back({.at_ns = due.times[i],
                                   .phase = p,
                                   .index = index,
                                   .salt = static_cast<std::uint32_t>(salts.next() >> 32),
                                   .prompt_words = drawn.prompt_words,
                                   .answer_tokens = drawn.answer_tokens});
    }
  }
  schedule.hash = hash_of(schedule);
  return schedule;
}

Schedule warm_up_schedule(const Schedule& schedule, std::uint32_t count, const Lengths& lengths) {
  Schedule out;
  out.seed = schedule.seed;
  Random salts(schedule.seed, "salts/warm up");
  for (std::uint32_t i = 0; i < count; ++i) {
    Arrival arrival{.prompt_words = static_cast<std::uint32_t>(lengths.prompt_words),
                    .answer_tokens = static_cast<std::uint32_t>(lengths.answer_tokens)};
    if (!schedule.arrivals.empty()) arrival = schedule.arrivals[i % schedule.arrivals.size()];
    arrival.at_ns = 0;
    arrival.phase = 0;
    arrival.index = i;
    arrival.salt = static_cast<std::uint32_t>(salts.next() >> 32);
    out.arrivals.push_back(arrival);
  }
  out.hash = hash_of(out);
  return out;
}

std::string prompt_text(const Schedule& schedule, const Arrival& arrival) {
  std::string prompt = format("%08x", arrival.salt);
  Random words(word_seed(schedule.seed, arrival.index));
  for (std::int64_t w = 0; w < arrival.prompt_words; ++w) {
    prompt += ' ';
    prompt += kWords[words.below(kWords.size())];
  }
  return prompt;
}

}  // namespace mixproof::inference
