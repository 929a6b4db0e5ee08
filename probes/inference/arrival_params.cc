#include "probes/inference/arrival_params.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace mixproof::inference {
namespace {

constexpr Range kRate{.min = 0.001, .max = 100'000};
constexpr Range kRateOrNone{.min = 0, .max = 100'000};
constexpr Range kPeriod{.min = 0.1, .max = 1e6};

Params with_gaps(ArrivalProcess& p, Params params) {
  params.push_back(choice("process", &p.process,
                          "gaps on the axis of expected counts: exponential, all alike, or gamma",
                          {"poisson", "constant", "gamma"}));
  params.push_back(number(
      "cv", &p.cv, "of gamma gaps: their standard deviation over their mean; above 1: clumps",
      {.min = 0.05, .max = 20}));
  return params;
}

Params step_params(ArrivalProcess& p, std::size_t index) {
  if (index >= p.steps.size()) p.steps.resize(index + 1);
  return {
      required(number("rate_per_s", &p.steps[index].rate_per_s, "requests a second", kRateOrNone)),
      required(number("for_s", &p.steps[index].for_s, "how long; the last one goes on",
                      {.min = 0.01, .max = 1e6}))};
}

Params trace_params(TraceOptions& t) {
  return {
      required(text("path", &t.path, "the file, absolute, on the node of the load")),
      choice("format", &t.format, "of the file; auto: by its first line",
             {"auto", "azure", "mooncake", "burstgpt", "jsonl"}),
      number("time_scale", &t.time_scale, "seconds of the trace in a second of the run",
             {.min = 1e-3, .max = 1e6}),
      number(
          "rate_scale", &t.rate_scale,
          "below 1: each request stays with this probability; above 1: copies, each shifted round "
          "the trace, are added; by the seed",
          {.min = 1e-6, .max = 1000}),
      number("from_s", &t.from_s, "begin of the part that is replayed, in times of the trace",
             {.min = 0, .max = 1e9}),
      number("until_s", &t.until_s, "its end; 0: the end of the trace", {.min = 0, .max = 1e9}),
      flag("loop", &t.loop, "begin again at the end; else nothing more is sent in the phase"),
      integer("max_prompt_tokens", &t.max_prompt_tokens, "longer prompts are cut to it",
              {.min = 0, .max = 1e6}),
      integer("max_answer_tokens", &t.max_answer_tokens, "longer answers are cut to it",
              {.min = 1, .max = 1e6}),
      number("peak_per_s", &t.peak_per_s,
             "declared cost: a trace with more requests in any second of the run is refused",
             kRate),
  };
}

Param length_param(const std::string& name, const std::string& what, LengthRule& rule) {
  const Range range{.min = 0, .max = 1e6};
  const Param min = integer("min", &rule.min, "shortest", range),
              max = integer("max", &rule.max, "longest", range);
  return one_of(
      name, &rule.kind, what,
      {{"fixed", {}},
       {"uniform", {min, max}},
       {"lognormal",
        {number("p50", &rule.p50, "median", {.min = 1, .max = 1e6}),
         number("sigma", &rule.sigma, "standard deviation of the logarithm", {.min = 0, .max = 5}),
         min, max}},
       {"choice",
        {numbers("lengths", &rule.lengths, "to choose from", range),
         numbers("weights", &rule.weights, "of each; empty: all alike", {.min = 0, .max = 1e9})}},
       {"trace", {}}});
}

}  // namespace

Param arrivals_param(ArrivalProcess& p) {
  const Param rate = number("rate_per_s", &p.rate_per_s, "requests a second, on average", kRate);
  const Param base =
      number("rate_per_s", &p.rate_per_s, "requests a second, the base", kRateOrNone);
  return one_of(
      "arrivals", &p.kind,
      "when requests are due, whatever the server does; steps, ramp, square and trace begin anew in "
      "each phase, bursts count from the begin of the load",
      {{"poisson", {rate}},
       {"constant", {rate}},
       {"gamma",
        {rate,
         number("cv", &p.cv, "standard deviation of the gaps over their mean; above 1: clumps",
                {.min = 0.05, .max = 20})}},
       {"steps",
        with_gaps(
            p, {required(list_of(
                   "steps", "one rate after the other: [{\"rate_per_s\": 2, \"for_s\": 30}, ...]",
                   [&p](std::size_t i) { return step_params(p, i); }))})},
       {"ramp",
        with_gaps(p, {number("from_per_s", &p.from_per_s, "rate at the begin", kRateOrNone),
                      number("to_per_s", &p.to_per_s, "rate at the end, and after it", kRateOrNone),
                      number("over_s", &p.over_s, "length of the ramp; 0: the whole phase",
                             {.min = 0, .max = 1e6}),
                      choice("form", &p.form, "of the ramp", {"linear", "exponential"})})},
       {"square",
        with_gaps(p, {rate,
                      numbers("factors", &p.factors,
                              "of the rate, in turn, each for an equal part of the period",
                              {.min = 0, .max = 1e6}),
                      number("period_s", &p.period_s, "of all factors", kPeriod)})},
       {"bursts",
        with_gaps(
            p,
            {base,
             number("burst_per_s", &p.burst_per_s, "requests a second in a burst", kRateOrNone),
             number("period_s", &p.period_s,
                    "from one burst to the next; that of checkpoint_every_s aligns them", kPeriod),
             number("offset_s", &p.offset_s, "of the first burst from the begin of the load",
                    {.min = 0, .max = 1e6}),
             number("length_s", &p.length_s, "of a burst", {.min = 0.01, .max = 1e6})})},
       {"trace", trace_params(p.trace)}});
}

Params length_params(Lengths& lengths) {
  return {
      integer("prompt_words", &lengths.prompt_words,
              "words in a prompt, behind a salt of eight digits; a word is about a token",
              {.min = 0, .max = 1e6}),
      integer("answer_tokens", &lengths.answer_tokens, "tokens to ask for", {.min = 1, .max = 1e6}),
      length_param("prompt_lengths",
                   "words of each prompt, the same in every phase; fixed: prompt_words; trace: its "
                   "prompt tokens",
                   lengths.prompt),
      length_param("answer_lengths",
                   "tokens to ask for, the same in every phase; fixed: answer_tokens; trace: its "
                   "answer tokens",
                   lengths.answer),
  };
}

Json arrivals_info(const ArrivalProcess& process, const Schedule& schedule,
                   std::span<const SchedulePhase> phases) {
  std::vector<std::int64_t> counts(phases.size(), 0);
  for (const Arrival& arrival : schedule.arrivals) ++counts[arrival.phase];
  Json by_phase = Json::object();
  for (std::size_t p = 0; p < phases.size(); ++p) by_phase[phases[p].name] = counts[p];
  ArrivalProcess copy = process;  // parameters are bound to variables that could be written
  Json out = {{"process", process.kind},
              {"scheduled", schedule.arrivals.size()},
              {"by_phase", by_phase},
              {"peak_per_s", peak_rate(process)},
              {"params", write_params({arrivals_param(copy)}).at("arrivals").at(process.kind)}};
  if (process.kind == "poisson" || process.kind == "constant" || process.kind == "gamma")
    out["rate_per_s"] = process.rate_per_s;
  for (const RateStep& step : process.steps)
    out["params"]["steps"].push_back({{"rate_per_s", step.rate_per_s}, {"for_s", step.for_s}});
  if (!schedule.trace_sha256.empty())
    out["trace"] = {{"path", process.trace.path},
                    {"format", schedule.trace_format},
                    {"sha256", schedule.trace_sha256},
                    {"requests", schedule.trace_requests},
                    {"shortened", schedule.trace_shortened}};
  return out;
}

}  // namespace mixproof::inference
