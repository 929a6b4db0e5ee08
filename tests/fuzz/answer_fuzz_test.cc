// Runs the fuzz target where there is no fuzzer: the corpus and seeded mutations of it.
#include <gtest/gtest.h>

#include "harness/base/random.h"
#include "tests/fuzz/answer_splits.h"
#include "tests/probes/inference/corpus.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace mixproof::inference {
namespace {

void try_input(char kind, const std::string& bytes) {
  const std::string input = kind + bytes;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

void mutate(std::string& bytes, Random& random) {
  const auto place = [&] { return static_cast<std::size_t>(random.below(bytes.size())); };
  for (std::uint64_t changes = 1 + random.below(4); changes > 0 && !bytes.empty(); --changes) {
    switch (random.below(5)) {
      case 0:
        bytes[place()] = static_cast<char>(random.below(256));
        break;
      case 1:
        bytes.erase(place(), 1 + random.below(8));
        break;
      case 2:
        bytes.insert(place(), 1, "\r\n:{}[]\"\\ 0"[random.below(11)]);
        break;
      case 3:
        bytes.resize(place());
        break;
      default:
        bytes.insert(place(), bytes.substr(place(), random.below(64)));
        break;
    }
  }
}

TEST(AnswerFuzz, TheCorpusGivesTheSameRecordsInEverySplit) {
  for (const std::string& name : corpus_names())
    for (char kind = 0; kind < static_cast<char>(readings().size()); ++kind) {
      SCOPED_TRACE(name);
      try_input(kind, corpus_file(name));
    }
}

TEST(AnswerFuzz, SoDoMutationsOfIt) {
  std::vector<std::string> files;
  for (const std::string& name : corpus_names()) files.push_back(corpus_file(name));
  ASSERT_FALSE(files.empty());
  Random random(7, "mutations");
  for (int round = 0; round < 1200; ++round) {
    std::string bytes = files[random.below(files.size())];
    mutate(bytes, random);
    try_input(static_cast<char>(random.below(readings().size())), bytes);
  }
}

TEST(AnswerFuzz, TheSummaryTellsAnswersApart) {
  const std::string bytes = corpus_file("plain");
  const std::string cut = bytes.substr(0, bytes.size() / 2);
  EXPECT_NE(read_in_pieces(bytes, {}, readings()[0], 4).summary(),
            read_in_pieces(cut, {}, readings()[0], 4).summary());
}

}  // namespace
}  // namespace mixproof::inference
