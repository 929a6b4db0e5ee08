#include "probes/inference/outcome.h"

#include <gtest/gtest.h>

namespace mixproof::inference {
namespace {

AnswerFacts good() {
  return {.ending = Ending::kComplete,
          .status = 200,
          .done = true,
          .finished = true,
          .events = 8,
          .tokens = 8,
          .forced = 8};
}

template <typename Change>
Outcome with(Change change) {
  AnswerFacts facts = good();
  change(facts);
  return decide(facts);
}

TEST(Outcome, OkNeedsACleanEndAndAWordThatItIsOne) {
  EXPECT_EQ(decide(good()), Outcome::kOk);
  EXPECT_EQ(with([](auto& f) { f.done = false; }), Outcome::kOk);
  EXPECT_EQ(with([](auto& f) { f.finished = false; }), Outcome::kOk);
  EXPECT_EQ(with([](auto& f) { f.done = f.finished = false; }), Outcome::kTruncated);
  EXPECT_EQ(with([](auto& f) { f.ending = Ending::kCut; }), Outcome::kTruncated);
}

TEST(Outcome, EveryEndingHasItsClass) {
  EXPECT_EQ(with([](auto& f) { f.ending = Ending::kTimeoutFirst; }), Outcome::kTimeoutFirst);
  EXPECT_EQ(with([](auto& f) { f.ending = Ending::kTimeoutIdle; }), Outcome::kTimeoutIdle);
  EXPECT_EQ(with([](auto& f) { f.ending = Ending::kTimeoutTotal; }), Outcome::kTimeoutTotal);
  EXPECT_EQ(decide({.ending = Ending::kNotConnected}), Outcome::kConnectError);
  EXPECT_EQ(decide({.ending = Ending::kDropped}), Outcome::kClientDropped);
  EXPECT_EQ(decide({.ending = Ending::kCut}), Outcome::kTruncated);
}

TEST(Outcome, ErrorsWinOverWhatFollowedThem) {
  EXPECT_EQ(with([](auto& f) { f.error = true; }), Outcome::kStreamError);
  EXPECT_EQ(with([](auto& f) { f.malformed = true; }), Outcome::kMalformed);
  EXPECT_EQ(with([](auto& f) {
              f.status = 503;
              f.error = true;
              f.events = 0;
            }),
            Outcome::kHttpError);
  EXPECT_EQ(with([](auto& f) {
              f.status = 503;
              f.ending = Ending::kTimeoutFirst;
            }),
            Outcome::kHttpError);
  EXPECT_EQ(with([](auto& f) { f.status = 204; }), Outcome::kHttpError);
}

TEST(Outcome, FewerTokensThanForcedAreShort) {
  EXPECT_EQ(with([](auto& f) { f.tokens = 7; }), Outcome::kShort);
  EXPECT_EQ(with([](auto& f) {
              f.tokens = 7;
              f.forced = 0;
            }),
            Outcome::kOk);
  EXPECT_EQ(with([](auto& f) {
              f.tokens = 7;
              f.length_reached = true;
            }),
            Outcome::kShort);  // its own count says so
  EXPECT_EQ(with([](auto& f) {
              f.tokens = 7;
              f.estimated = true;
            }),
            Outcome::kShort);
  EXPECT_EQ(with([](auto& f) {
              f.tokens = 7;
              f.estimated = f.length_reached = true;
            }),
            Outcome::kOk);
}

TEST(Outcome, TheEndOfAWholeAnswerIsItsWordAndItsEstimateIsNone) {
  const auto whole = [](auto& f) {
    f.whole = true;
    f.done = f.finished = false;
    f.events = 1;
  };
  EXPECT_EQ(with(whole), Outcome::kOk);
  EXPECT_EQ(with([&](auto& f) {
              whole(f);
              f.tokens = 7;
            }),
            Outcome::kShort);
  EXPECT_EQ(with([&](auto& f) {
              whole(f);
              f.tokens = 1;
              f.estimated = true;
            }),
            Outcome::kOk);
}

TEST(Outcome, WithoutATokenAnAnswerIsEmpty) {
  EXPECT_EQ(with([](auto& f) { f.events = f.tokens = 0; }), Outcome::kEmpty);
  EXPECT_EQ(with([](auto& f) { f.events = 0; }),
            Outcome::kEmpty);  // counted tokens that nobody saw
}

TEST(Outcome, NamesAreDistinct) {
  EXPECT_EQ(outcome_name(Outcome::kOk), "OK");
  EXPECT_EQ(outcome_name(Outcome::kTimeoutFirst), "TIMEOUT_FIRST");
  EXPECT_EQ(outcome_name(Outcome::kClientDropped), "CLIENT_DROPPED");
}

}  // namespace
}  // namespace mixproof::inference
