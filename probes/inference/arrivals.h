// Schedule: every request of a run, drawn before it from the seed. Open loop: nothing the server
// does changes it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/base/result.h"

namespace mixproof::inference {

struct ArrivalProcess {
  std::string kind = "poisson";  // poisson: exponential gaps; constant: a metronome
  double rate_per_s = 6;
};

struct SchedulePhase {
  std::string name;
  std::int64_t begin_ns = 0, end_ns = 0;  // from the begin of the load
};

// Of every request.
struct Lengths {
  std::int64_t prompt_words = 16, answer_tokens = 24;
};

struct Arrival {
  std::int64_t at_ns = 0;   // from the begin of the load
  std::uint32_t phase = 0;  // index into the phases
  std::uint32_t index = 0;  // within the phase: the same words in every phase
  std::uint32_t salt = 0;   // fresh in every phase, so that no cache of prefixes helps
  std::uint32_t prompt_words = 0, answer_tokens = 0;
};

struct Schedule {
  std::vector<Arrival> arrivals;  // ordered by time
  std::uint64_t seed = 0;
  std::string hash;  // sha256 over times, salts, prompts' words and lengths
};

// Gaps are never rescaled to fit the end. Each phase has streams of its own, so that adding one
// does not shift another; exponential gaps may start afresh at a boundary because they have no
// memory, the metronome ticks through. kInvalid for more than 10 million requests, for a rate that
// is not positive, for phases that overlap.
Result<Schedule> draw_schedule(const ArrivalProcess& process, std::span<const SchedulePhase> phases,
                               std::uint64_t seed, const Lengths& lengths);

// The prompt: the salt first (a prefix cache compares from the front), then words of equal length.
std::string prompt_text(const Schedule& schedule, const Arrival& arrival);

}  // namespace mixproof::inference
