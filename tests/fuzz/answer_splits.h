// One answer's bytes through the client's reader, cut into reads in several ways: the record must
// not depend on the cuts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "probes/inference/exchange.h"

namespace mixproof::inference {

struct SplitResult {
  RequestRecord record;
  std::string text;  // of all token events

  // Everything that the bytes alone decide; times and the number of reads are not among it.
  std::string summary() const {
    return std::string(outcome_name(record.outcome)) + " status " + std::to_string(record.status) +
           " tokens " + std::to_string(record.tokens) + " events " + std::to_string(record.events) +
           " comments " + std::to_string(record.comments) + " cached " +
           std::to_string(record.cached) + (record.estimated ? " estimated" : "") +
           (record.retry_after ? " retry_after" : "") + " text \"" + text + "\" detail \"" +
           record.detail + "\"";
  }
};

// `cuts`: where reads end, ascending. After the last byte the peer closes cleanly.
inline SplitResult read_in_pieces(std::string_view bytes, const std::vector<std::size_t>& cuts,
                                  const Reading& reading, std::int64_t forced_tokens) {
  struct Texts final : TokenObserver {
    std::string all;
    void token(const RequestRecord&, std::int64_t, std::string_view text) override { all += text; }
  } texts;
  Exchange exchange;
  exchange.use(&reading);
  exchange.start(0, 0, forced_tokens, &texts);
  bool over = false;
  std::int64_t at = 0;
  std::size_t begin = 0;
  const auto read = [&](std::size_t end) {
    if (!over && end > begin)
      over = exchange.read(bytes.substr(begin, end - begin), ++at, std::nullopt);
    begin = end;
  };
  for (const std::size_t cut : cuts) read(std::min(cut, bytes.size()));
  read(bytes.size());
  exchange.finish(over ? Ending::kComplete : exchange.peer_closed(true), ++at, "");
  return {exchange.record(), texts.all};
}

inline std::vector<std::size_t> after_every_byte(std::size_t size) {
  std::vector<std::size_t> cuts;
  for (std::size_t i = 1; i < size; ++i) cuts.push_back(i);
  return cuts;
}

// The four shapes of answers that the client reads.
inline const std::vector<Reading>& readings() {
  static const std::vector<Reading> kAll = {
      {.form = {}, .secret = "secret"},
      {.form = {.api = Api::kChat, .stream = false, .text = {}, .tokens = {}}, .secret = ""},
      {.form = {.api = Api::kEmbeddings, .stream = false, .text = {}, .tokens = {}}, .secret = ""},
      {.form = {.api = Api::kCustom,
                .stream = true,
                .text = {"choices", "0", "text"},
                .tokens = {"usage", "completion_tokens"}},
       .secret = ""}};
  return kAll;
}

}  // namespace mixproof::inference
