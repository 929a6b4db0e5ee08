#include "probes/inference/arrivals.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "harness/base/random.h"
#include "harness/base/text.h"

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

Status check_arguments(const ArrivalProcess& process, std::span<const SchedulePhase> phases) {
  if (!(process.rate_per_s > 0) || !std::isfinite(process.rate_per_s))
    return Error{Code::kInvalid, "arrivals: the rate must be positive"};
  if (process.kind != "poisson" && process.kind != "constant")
    return Error{Code::kInvalid, "arrivals: unknown process \"" + process.kind + "\""};
  double total_s = 0;
  for (std::size_t p = 0; p < phases.size(); ++p) {
    if (phases[p].end_ns < phases[p].begin_ns ||
        (p > 0 && phases[p].begin_ns < phases[p - 1].end_ns))
      return Error{Code::kInvalid, "phase " + phases[p].name +
                                       " overlaps the one before it or ends before it begins"};
    total_s += 1e-9 * static_cast<double>(phases[p].end_ns - phases[p].begin_ns);
  }
  if (total_s * process.rate_per_s > static_cast<double>(kMaxRequests))
    return Error{Code::kInvalid, format("arrivals: %.0f requests are more than %zu",
                                        total_s * process.rate_per_s, kMaxRequests)};
  return ok();
}

// Times within [begin, end) of one phase.
std::vector<std::int64_t> poisson_times(const SchedulePhase& phase, double rate_per_s,
                                        Random random) {
  std::vector<std::int64_t> times;
  double at_s = 0;  // summed as double: exact to nanoseconds for over a month
  while (true) {
    at_s += random.exponential(rate_per_s);
    const std::int64_t at = phase.begin_ns + std::llround(at_s * 1e9);
    if (at >= phase.end_ns || times.size() > 2 * kMaxRequests) return times;
    times.push_back(at);
  }
}

std::vector<std::int64_t> constant_times(const SchedulePhase& phase, double rate_per_s) {
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

std::uint64_t word_seed(std::uint64_t seed, std::uint32_t index) {
  return Random(seed + index, "prompt words").next();
}

void append(std::string& bytes, std::uint64_t value) {  // little-endian: one hash on every machine
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>((value >> shift) & 0xff);
}

}  // namespace

Result<Schedule> draw_schedule(const ArrivalProcess& process, std::span<const SchedulePhase> phases,
                               std::uint64_t seed, const Lengths& lengths) {
  TRY(check_arguments(process, phases));
  Schedule schedule;
  schedule.seed = seed;
  std::string bytes;
  for (std::uint32_t p = 0; p < phases.size(); ++p) {
    const SchedulePhase& phase = phases[p];
    const auto times =
        process.kind == "constant"
            ? constant_times(phase, process.rate_per_s)
            : poisson_times(phase, process.rate_per_s, Random(seed, "arrivals/" + phase.name));
    Random salts(seed, "salts/" + phase.name);
    std::uint32_t index = 0;
    for (const std::int64_t at : times) {
      const Arrival arrival{.at_ns = at,
                            .phase = p,
                            .index = index,
                            .salt = static_cast<std::uint32_t>(salts.next() >> 32),
                            .prompt_words = static_cast<std::uint32_t>(lengths.prompt_words),
                            .answer_tokens = static_cast<std::uint32_t>(lengths.answer_tokens)};
      schedule.arrivals.push_back(arrival);
      append(bytes, static_cast<std::uint64_t>(at));
      append(bytes, (std::uint64_t{p} << 32) | arrival.salt);
      append(bytes, (std::uint64_t{arrival.prompt_words} << 32) | arrival.answer_tokens);
      append(bytes, word_seed(seed, index));
      ++index;
    }
  }
  schedule.hash = sha256_hex(bytes);
  return schedule;
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
