#include "probes/inference/lengths.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "probes/inference/portable_math.h"

namespace mixproof::inference {
namespace {

constexpr double kLongest = 1e6;

Status check_rule(const LengthRule& rule, const std::string& name, bool has_trace,
                  double shortest) {
  const auto invalid = [&](const std::string& what) {
    return Error{Code::kInvalid, name + ": " + what};
  };
  if (rule.kind == "trace" && !has_trace) return invalid("\"trace\" needs arrivals from a trace");
  if (rule.kind == "uniform" || rule.kind == "lognormal") {
    if (rule.min > rule.max) return invalid("min is above max");
    if (static_cast<double>(rule.min) < shortest) return invalid("min is too short");
  }
  if (rule.kind != "choice") return ok();
  if (rule.lengths.empty()) return invalid("choice: no length is given");
  for (const double length : rule.lengths)
    if (!(length >= shortest && length <= kLongest) || length != std::floor(length))
      return invalid("choice: a length is not a whole number of at least " +
                     std::to_string(static_cast<int>(shortest)));
  if (rule.weights.empty()) return ok();
  if (rule.weights.size() != rule.lengths.size())
    return invalid("choice: there must be as many weights as lengths");
  for (const double weight : rule.weights)
    if (!(weight >= 0)) return invalid("choice: a weight is negative");
  if (!(std::accumulate(rule.weights.begin(), rule.weights.end(), 0.0) > 0))
    return invalid("choice: no weight is positive");
  return ok();
}

double chosen(const LengthRule& rule, Random& random) {
  if (rule.weights.empty())
    return rule.lengths[static_cast<std::size_t>(random.below(rule.lengths.size()))];
  double left = random.unit() * std::accumulate(rule.weights.begin(), rule.weights.end(), 0.0);
  std::size_t last = 0;  // with weight
  for (std::size_t i = 0; i < rule.lengths.size(); ++i) {
    if (rule.weights[i] > 0) last = i;
    left -= rule.weights[i];
    if (left < 0) return rule.lengths[i];
  }
  return rule.lengths[last];
}

std::uint32_t draw(const LengthRule& rule, std::int64_t fixed, std::uint32_t traced,
                   Random& random) {
  if (rule.kind == "trace") return traced;
  if (rule.kind == "uniform")
    return static_cast<std::uint32_t>(
        rule.min + static_cast<std::int64_t>(
                       random.below(static_cast<std::uint64_t>(rule.max - rule.min) + 1)));
  if (rule.kind == "choice") return static_cast<std::uint32_t>(chosen(rule, random));
  if (rule.kind != "lognormal") return static_cast<std::uint32_t>(fixed);
  const double exponent = std::clamp(rule.sigma * unit_normal(random), -100.0, 100.0);
  const double length = std::floor(rule.p50 * exp_of(exponent) + 0.5);
  return static_cast<std::uint32_t>(
      std::clamp(length, static_cast<double>(rule.min), static_cast<double>(rule.max)));
}

}  // namespace

Status check_lengths(const Lengths& lengths, bool has_trace) {
  TRY(check_rule(lengths.prompt, "prompt_lengths", has_trace, 0));
  return check_rule(lengths.answer, "answer_lengths", has_trace, 1);
}

double mean_length(const LengthRule& rule, std::int64_t fixed) {
  if (rule.kind == "uniform") return 0.5 * static_cast<double>(rule.min + rule.max);
  if (rule.kind == "lognormal") return rule.p50 * std::exp(0.5 * rule.sigma * rule.sigma);
  if (rule.kind != "choice" || rule.lengths.empty()) return static_cast<double>(fixed);
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < rule.lengths.size(); ++i) {
    const double weight = i < rule.weights.size() ? rule.weights[i] : 1;
    sum += weight * rule.lengths[i];
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0;
}

LengthDraws::LengthDraws(const Lengths& lengths, std::uint64_t seed)
    : lengths_(lengths), prompts_(seed, "lengths/prompt"), answers_(seed, "lengths/answer") {}

RequestLengths LengthDraws::at(std::uint32_t index, const RequestLengths& traced) {
  while (drawn_.size() <= index)
    drawn_.push_back({draw(lengths_.prompt, lengths_.prompt_words, 0, prompts_),
                      draw(lengths_.answer, lengths_.answer_tokens, 0, answers_)});
  RequestLengths out = drawn_[index];
  if (lengths_.prompt.kind == "trace") out.prompt_words = traced.prompt_words;
  if (lengths_.answer.kind == "trace") out.answer_tokens = traced.answer_tokens;
  return out;
}

}  // namespace mixproof::inference
