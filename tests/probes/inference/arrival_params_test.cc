#include "probes/inference/arrival_params.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "probes/inference/clock.h"

namespace mixproof::inference {
namespace {

struct Read {
  ArrivalProcess process;
  Lengths lengths;
  Status status = ok();

  Read() = default;
  Read(const Read&) = delete;
};

std::unique_ptr<Read> read(const Json& json) {
  auto out = std::make_unique<Read>();
  Params params = length_params(out->lengths);
  params.push_back(arrivals_param(out->process));
  out->status = read_params(json, params);
  return out;
}

TEST(ArrivalParams, EveryShapeIsRead) {
  const Json shapes[] = {
      {{"poisson", {{"rate_per_s", 7}}}},
      {{"gamma", {{"rate_per_s", 7}, {"cv", 3}}}},
      {{"steps",
        {{"steps", {{{"rate_per_s", 2}, {"for_s", 5}}, {{"rate_per_s", 9}, {"for_s", 5}}}}}}},
      {{"ramp", {{"from_per_s", 0}, {"to_per_s", 9}, {"over_s", 20}, {"process", "constant"}}}},
      {{"square", {{"rate_per_s", 2}, {"factors", {1, 3, 5}}, {"period_s", 30}}}},
      {{"bursts",
        {{"rate_per_s", 0},
         {"burst_per_s", 30},
         {"period_s", 20},
         {"offset_s", 4},
         {"length_s", 3}}}},
      {{"trace", {{"path", "/t.csv"}, {"time_scale", 2}, {"loop", true}}}}};
  for (const Json& shape : shapes) {
    const auto one = read({{"arrivals", shape}});
    ASSERT_TRUE(one->status.ok()) << one->status.error().message;
    EXPECT_EQ(one->process.kind, shape.begin().key());
    EXPECT_TRUE(check_process(one->process).ok()) << shape;
  }
  const auto steps = read({{"arrivals", shapes[2]}});
  ASSERT_EQ(steps->process.steps.size(), 2u);
  EXPECT_EQ(steps->process.steps[1].rate_per_s, 9);
  EXPECT_FALSE(read({{"arrivals", {{"steps", Json::object()}}}})->status.ok());
  EXPECT_FALSE(read({{"arrivals", {{"trace", Json::object()}}}})->status.ok());
  EXPECT_FALSE(read({{"arrivals", {{"square", {{"factors", {1, -3}}}}}}})->status.ok());
}

TEST(ArrivalParams, LengthsAreFixedUnlessSaidOtherwise) {
  const auto fixed = read({{"prompt_words", 5}, {"answer_tokens", 6}});
  EXPECT_EQ(fixed->lengths.prompt_words, 5);
  EXPECT_EQ(fixed->lengths.answer.kind, "fixed");
  const auto drawn =
      read({{"prompt_lengths", {{"uniform", {{"min", 3}, {"max", 9}}}}},
            {"answer_lengths", {{"choice", {{"lengths", {8, 64}}, {"weights", {3, 1}}}}}}});
  ASSERT_TRUE(drawn->status.ok());
  EXPECT_EQ(drawn->lengths.prompt.kind, "uniform");
  EXPECT_EQ(drawn->lengths.prompt.max, 9);
  EXPECT_EQ(drawn->lengths.answer.weights[0], 3);
}

TEST(ArrivalParams, InfoSaysWhatWasDrawn) {
  const std::vector<SchedulePhase> phases = {{"a", 0, 10 * kSecond},
                                             {"b", 10 * kSecond, 20 * kSecond}};
  const ArrivalProcess process{.kind = "steps", .steps = {{2, 5}, {8, 5}}};
  const Schedule schedule = *draw_schedule(process, phases, 1, {});
  const Json info = arrivals_info(process, schedule, phases);
  EXPECT_EQ(info.at("process"), "steps");
  EXPECT_EQ(info.at("peak_per_s"), 8);
  EXPECT_EQ(info.at("params").at("steps")[1].at("rate_per_s"), 8);
  EXPECT_EQ(info.at("by_phase").at("a").get<std::size_t>() +
                info.at("by_phase").at("b").get<std::size_t>(),
            schedule.arrivals.size());
}

}  // namespace
}  // namespace mixproof::inference
