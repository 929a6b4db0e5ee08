#include "reports/recording.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/base/text.h"

namespace mixproof {
namespace {

std::string frame_of(int first, int count) {
  RecordingEncoder encoder;
  for (int i = first; i < first + count; ++i)
    encoder.add({{"row", "note"}, {"message", std::to_string(i)}});
  return encoder.take_frame();
}

TEST(Recording, ComesBackAsItWasWritten) {
  const std::string bytes = frame_of(0, 100) + frame_of(100, 1);
  const auto read = decode_recording(bytes);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->rows.size(), 101u);
  EXPECT_EQ(text_at(read->rows[100], "message"), "100");
  EXPECT_FALSE(read->torn);
  EXPECT_EQ(read->sha256, sha256_hex(bytes));
  EXPECT_EQ(read->bytes, static_cast<std::int64_t>(bytes.size()));
}

TEST(Recording, NothingAddedGivesNoFrame) {
  RecordingEncoder encoder;
  EXPECT_TRUE(encoder.empty());
  EXPECT_EQ(encoder.take_frame(), "");
  EXPECT_EQ(decode_recording("")->rows.size(), 0u);
}

TEST(Recording, ATornTailIsDroppedWhereverItTears) {
  const std::string whole = frame_of(0, 5), last = frame_of(5, 50);
  for (std::size_t length = 1; length < last.size(); ++length) {
    const auto read = decode_recording(whole + last.substr(0, length));
    ASSERT_TRUE(read.ok()) << length << ": " << read.error().message;
    EXPECT_TRUE(read->torn) << length;
    EXPECT_EQ(read->rows.size(), 5u) << length;
  }
}

TEST(Recording, ATailOfZerosIsTornToo) {
  const auto read = decode_recording(frame_of(0, 5) + std::string(4096, '\0'));
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->torn);
  EXPECT_EQ(read->rows.size(), 5u);
}

TEST(Recording, DamageBeforeTheTailNamesTheFrame) {
  const std::string first = frame_of(0, 50), second = frame_of(50, 50), third = frame_of(100, 50);
  for (std::size_t at = 0; at < second.size(); ++at) {
    std::string damaged = second;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    const auto read = decode_recording(first + damaged + third);
    ASSERT_FALSE(read.ok()) << at;
    EXPECT_EQ(read.error().code, Code::kCorrupt);
    EXPECT_EQ(read.error().message.rfind(format("recording frame 2 at byte %zu", first.size()), 0),
              0u)
        << read.error().message;
  }
}

TEST(Recording, AMissingStretchInTheMiddleIsDamage) {
  const std::string first = frame_of(0, 50), second = frame_of(50, 50);
  EXPECT_FALSE(decode_recording(first.substr(0, first.size() - 3) + second).ok());
}

TEST(Recording, TextThatIsNoRecordingIsDamage) {
  const auto read = decode_recording("{\"row\":\"begin\"}\n");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kCorrupt);
}

TEST(Recording, AMissingFileIsNamed) {
  const auto read = read_recording("/nonexistent/recording.jsonl.zst");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kSystem);
  EXPECT_NE(read.error().message.find("/nonexistent/recording.jsonl.zst"), std::string::npos);
}

}  // namespace
}  // namespace mixproof
