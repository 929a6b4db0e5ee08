// RowWriter: takes records from the client's thread without ever making it wait, and writes them as
// rows from its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "probes/inference/client.h"
#include "probes/probe.h"

namespace mixproof::inference {

// What tells the rows of one worker from those of another, where there are several.
struct RowLabels {
  std::int64_t worker = 0;
  bool with_worker = false, with_target = false;
};

Json row_of(const RequestRecord& record, const RowLabels& labels = {});  // {"row": "request", ...}
Json row_of(const ClientSecond& second, const RowLabels& labels = {});   // {"row": "client", ...}

class RowWriter {
 public:
  explicit RowWriter(RowSink& rows, const RowLabels& labels = {});
  ~RowWriter();  // writes what is left

  void add(const RequestRecord& record);
  void add(const ClientSecond& second);
  void finish();  // returns when every row has been handed to the sink

 private:
  using Item = std::variant<RequestRecord, ClientSecond>;
  void hand_over(Item item);
  void write_all();

  RowSink& rows_;
  const RowLabels labels_;
  std::vector<Item> kept_;  // of the client's thread
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::vector<Item> queue_;  // under mutex_
  std::jthread thread_;
};

}  // namespace mixproof::inference
