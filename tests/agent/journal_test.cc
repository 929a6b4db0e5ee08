#include "harness/agent/journal.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/agent/simulated_node.h"

namespace mixproof {
namespace {

std::vector<Json> whole_life() {
  const Json plan = {{"steps", {{{"a", 1}}, {{"b", 2}}}}};
  return {{{"type", "plan"},
           {"run", "r"},
           {"fault", "p/0"},
           {"node", "n0"},
           {"plan", plan},
           {"boot_id", "boot"},
           {"guard", {{"pid", 77}, {"start_ticks", 770}}}},
          {{"type", "lease"}, {"end_ns", 5000}, {"boot_id", "boot"}},
          {{"type", "preimage"}, {"step", 0}, {"value", "first"}},
          {{"type", "begin"}, {"step", 0}},
          {{"type", "done"}, {"step", 0}},
          {{"type", "preimage"}, {"step", 1}, {"value", "second"}},
          {{"type", "begin"}, {"step", 1}},
          {{"type", "done"}, {"step", 1}},
          {{"type", "lease"}, {"end_ns", 9000}, {"boot_id", "boot"}},
          {{"type", "undo_begin"}, {"step", 1}},
          {{"type", "undo_done"}, {"step", 1}},
          {{"type", "undo_begin"}, {"step", 0}},
          {{"type", "undo_done"}, {"step", 0}},
          {{"type", "clean"}}};
}

std::string encoded(const std::vector<Json>& records) {
  std::string out;
  for (const Json& record : records) out += encode_record(record);
  return out;
}

// Where each record ends.
std::vector<std::size_t> ends_of(const std::vector<Json>& records) {
  std::vector<std::size_t> out;
  std::size_t at = 0;
  for (const Json& record : records) out.push_back(at += encode_record(record).size());
  return out;
}

TEST(Journal, RecordsComeBackAsTheyWere) {
  const auto read = decode_journal(encoded(whole_life()), "j");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->records, whole_life());
  EXPECT_FALSE(read->torn);
  EXPECT_EQ(read->sound, encoded(whole_life()).size());
}

TEST(Journal, ATornTailAtAnyByteIsNeitherAnErrorNorARecord) {
  const std::vector<Json> life = whole_life();
  const std::string bytes = encoded(life);
  const std::vector<std::size_t> ends = ends_of(life);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const auto read = decode_journal(bytes.substr(0, cut), "j");
    ASSERT_TRUE(read.ok()) << "cut at " << cut;
    const auto whole =
        static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), cut) - ends.begin());
    ASSERT_EQ(read->records.size(), whole) << "cut at " << cut;
    EXPECT_TRUE(std::equal(read->records.begin(), read->records.end(), life.begin()));
    const std::size_t sound = whole == 0 ? 0 : ends[whole - 1];
    EXPECT_EQ(read->torn, cut != sound) << "cut at " << cut;
    EXPECT_EQ(read->sound, sound);
  }
}

TEST(Journal, AFileThatGrewWithoutItsBytesIsATornTail) {
  const std::string bytes = encoded(whole_life());
  for (const std::size_t zeros : {1u, 8u, 9u, 500u}) {
    const auto read = decode_journal(bytes + std::string(zeros, '\0'), "j");
    ASSERT_TRUE(read.ok()) << zeros;
    EXPECT_TRUE(read->torn);
    EXPECT_EQ(read->records.size(), whole_life().size());
  }
}

TEST(Journal, ADamagedByteBeforeTheLastRecordIsCorruptWhereverItIs) {
  const std::vector<Json> life = whole_life();
  const std::string bytes = encoded(life);
  const std::size_t last = ends_of(life)[life.size() - 2];
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const auto read = decode_journal(damaged, "j");
      if (at < last) {
        ASSERT_FALSE(read.ok()) << "byte " << at;
        EXPECT_EQ(read.error().code, Code::kCorrupt);
        EXPECT_NE(read.error().message.find("j: damaged record at byte "), std::string::npos)
            << read.error().message;
      } else {
        ASSERT_TRUE(read.ok()) << "byte " << at << " of the last record";
        EXPECT_EQ(read->records.size(), life.size() - 1) << "a damaged record is not taken for one";
      }
    }
}

TEST(Journal, StateOfEveryPrefix) {
  const std::vector<Json> life = whole_life();
  const char* expected[] = {"planned",   "planned",   "planned",   "planned",   "injecting",
                            "injected",  "injected",  "injecting", "injected",  "injected",
                            "reverting", "reverting", "reverting", "reverting", "clean"};
  for (std::size_t n = 0; n <= life.size(); ++n) {
    JournalRecords records;
    records.records.assign(life.begin(), life.begin() + static_cast<std::ptrdiff_t>(n));
    const JournalState state = journal_state(records);
    EXPECT_EQ(state.state, expected[n]) << "after " << n;
    const std::size_t begun = n >= 7 ? 2 : n >= 4 ? 1 : 0;
    EXPECT_EQ(state.begun.size(), begun) << "after " << n;
    EXPECT_EQ(state.resolved(false), n < 4 || n == life.size()) << "after " << n;
    EXPECT_EQ(state.resolved(true), n == life.size()) << "with a living guard, after " << n;
  }
}

TEST(Journal, StateHoldsWhatUndoNeeds) {
  const JournalState state = journal_state({.records = whole_life()});
  EXPECT_EQ(state.run, "r");
  EXPECT_EQ(state.fault, "p/0");
  EXPECT_EQ(state.node, "n0");
  EXPECT_EQ(state.boot_id, "boot");
  EXPECT_EQ(state.lease_end, Time(9000)) << "of the newest lease";
  EXPECT_EQ(state.guard, (ProcessId{77, 770}));
  EXPECT_EQ(state.preimages, (std::vector<std::string>{"first", "second"}));
}

TEST(Journal, AStepWhoseUndoIsDoneStillHasToBeVerified) {
  std::vector<Json> life = whole_life();
  life.back() = {{"type", "dirty"}, {"reason", "2 threads stand still"}};
  const JournalState state = journal_state({.records = life});
  EXPECT_EQ(state.state, "dirty");
  EXPECT_EQ(state.reason, "2 threads stand still");
  EXPECT_EQ(state.begun, (std::vector<std::size_t>{0, 1}));
  EXPECT_FALSE(state.resolved(false));
}

TEST(Journal, APlanBeginsANewLife) {
  std::vector<Json> life = whole_life();
  life.push_back(life[0]);
  life.push_back(life[1]);
  const JournalState planned = journal_state({.records = life});
  EXPECT_EQ(planned.state, "planned") << "what was clean before says nothing about it";
  EXPECT_TRUE(planned.begun.empty());
}

TEST(Journal, EveryRecordCarriesBootAndTime) {
  SimulatedNode world;
  Journal journal(*world.boss, "/x.journal");
  ASSERT_TRUE(journal.write("begin", {{"step", 3}}).ok());
  const auto read = decode_journal(world.node.files["/x.journal"], "j");
  ASSERT_TRUE(read.ok());
  const Json& record = read->records.at(0);
  EXPECT_EQ(text_at(record, "boot_id"), "boot-n0");
  EXPECT_EQ(integer_at(record, "boottime_ns"), world.boss->now(Clock::kBoottime).count());
  world.node.disk_full = true;
  EXPECT_FALSE(journal.write("done", {{"step", 3}}).ok());
}

TEST(Journal, NamesOfFilesAreHarmless) {
  EXPECT_EQ(journal_path("/s", "run-1", "stall/0"), "/s/faults/run-1.stall_0.journal");
  EXPECT_EQ(journal_path("/s", "../../etc", "x y"), "/s/faults/______etc.x_y.journal");
}

}  // namespace
}  // namespace mixproof
