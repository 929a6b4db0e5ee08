// Lengths of prompts and answers. Prompts are counted in words, answers in tokens; a word of the
// vocabulary used is about one token, how exactly depends on the server's tokeniser.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/random.h"
#include "harness/base/result.h"

namespace mixproof::inference {

struct LengthRule {
  std::string kind = "fixed";            // fixed uniform lognormal choice trace
  std::int64_t min = 1, max = 1000;      // uniform: both included; lognormal: cut to them
  double p50 = 100, sigma = 0.5;         // lognormal: median, and deviation of the logarithm
  std::vector<double> lengths, weights;  // choice; no weights: all alike
};

// Of every request.
struct Lengths {
  std::int64_t prompt_words = 16, answer_tokens = 24;  // those of kind fixed
  LengthRule prompt, answer;
};

struct RequestLengths {
  std::uint32_t prompt_words = 0, answer_tokens = 0;
};

Status check_lengths(const Lengths& lengths, bool has_trace);
double mean_length(const LengthRule& rule, std::int64_t fixed);  // lognormal: without the cut

// The lengths of the requests of a phase by their index: the same in every phase.
class LengthDraws {
 public:
  LengthDraws(const Lengths& lengths, std::uint64_t seed);
  // `traced`: what the trace says of this request, for rules of kind trace.
  RequestLengths at(std::uint32_t index, const RequestLengths& traced);

 private:
  Lengths lengths_;
  Random prompts_, answers_;
  std::vector<RequestLengths> drawn_;
};

}  // namespace mixproof::inference
