// Schedule: every request of a run, drawn before it from the seed. Open loop: nothing the server
// does changes it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/base/result.h"
#include "probes/inference/lengths.h"
#include "probes/inference/shape.h"

namespace mixproof::inference {

struct Arrival {
  std::int64_t at_ns = 0;   // from the begin of the load
  std::uint32_t phase = 0;  // index into the phases
  std::uint32_t index = 0;  // within the phase: the same words and lengths in every phase
  std::uint32_t salt = 0;   // fresh in every phase, so that no cache of prefixes helps
  std::uint32_t prompt_words = 0, answer_tokens = 0;
};

struct Schedule {
  std::vector<Arrival> arrivals;  // ordered by time
  std::uint64_t seed = 0;
  // sha256 over seed, times, salts and lengths (prompts' words follow from seed and index), and
  // over the trace's file; the same on every machine.
  std::string hash;
  // Of a trace: the file's format and digest, its requests, and those shortened to the longest.
  std::string trace_format, trace_sha256;
  std::int64_t trace_requests = 0, trace_shortened = 0;
};

// Gaps are never rescaled to fit the end. Each phase has streams of its own, so that adding one
// does not shift another. Gaps may start afresh at a phase's begin: exponential ones have no
// memory, and the first gap of a gamma process is what is left of one that began before (a part,
// uniform, of a gap taken in proportion to its length), so that the mean rate holds from the first
// moment on. The metronome of a constant rate ticks through. A trace is read here and replayed from
// its begin in every phase. kInvalid for more than 10 million requests, for a shape without a
// positive rate, for phases that overlap, for a trace that is wrong.
Result<Schedule> draw_schedule(const ArrivalProcess& process, std::span<const SchedulePhase> phases,
                               std::uint64_t seed, const Lengths& lengths);

// Requests to warm up with: the lengths of the first ones of the schedule, salts and times of their
// own; what `lengths` fixes when the schedule is empty.
Schedule warm_up_schedule(const Schedule& schedule, std::uint32_t count, const Lengths& lengths);

// The prompt: the salt first (a prefix cache compares from the front), then words of equal length.
std::string prompt_text(const Schedule& schedule, const Arrival& arrival);

}  // namespace mixproof::inference
