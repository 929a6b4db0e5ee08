#include "probes/inference/row_writer.h"

#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace mixproof::inference {

Json row_of(const RequestRecord& r, const RowLabels& labels) {
  Json row = {{"row", "request"},
              {"i", r.i},
              {"sched", r.sched},
              {"send", r.send},
              {"sent", r.sent},
              {"head", r.head},
              {"first", r.first},
              {"last", r.last},
              {"end", r.end},
              {"tokens", r.tokens},
              {"events", r.events},
              {"reads", r.token_reads},
              {"max_gap", r.max_gap},
              {"max_gap_end", r.max_gap_end},
              {"outcome", outcome_name(r.outcome)},
              {"detail", r.detail},
              {"reconnects", r.reconnects},
              {"estimated", r.estimated}};
  if (r.lag) row["lag"] = *r.lag;
  if (r.cached > 0) row["cached"] = r.cached;
  if (r.status != 0 && r.status != 200) row["status"] = r.status;
  if (r.retry_after) row["retry_after"] = true;
  if (labels.with_worker) row["worker"] = labels.worker;
  if (labels.with_target) row["target"] = r.target;
  return row;
}

Json row_of(const ClientSecond& s, const RowLabels& labels) {
  Json row = {{"row", "client"},
              {"at", s.at},
              {"cpu", s.cpu},
              {"steal", s.steal},
              {"dropped", s.dropped},
              {"in_flight", s.in_flight},
              {"clock_steps", s.clock_steps}};
  if (labels.with_worker) row["worker"] = labels.worker;
  return row;
}

RowWriter::RowWriter(RowSink& rows, const RowLabels& labels) : rows_(rows), labels_(labels) {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    // By the clock, not by notification: waking a thread for each row would cost the client more
    // than the row.
    while (!stop.stop_requested()) {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, std::chrono::milliseconds(50), [] { return false; });
      lock.unlock();
      write_all();
    }
  });
}

RowWriter::~RowWriter() { finish(); }

void RowWriter::add(const RequestRecord& record) { hand_over(record); }
void RowWriter::add(const ClientSecond& second) { hand_over(second); }

void RowWriter::hand_over(Item item) {
  kept_.push_back(std::move(item));
  // Only if it is free: the writer may have lost its processor while holding it.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  queue_.insert(queue_.end(), std::make_move_iterator(kept_.begin()),
                std::make_move_iterator(kept_.end()));
  kept_.clear();
}

void RowWriter::write_all() {
  std::vector<Item> items;
  {
    const std::lock_guard lock(mutex_);
    items.swap(queue_);
  }
  for (const Item& item : items)
    rows_.row(std::visit([this](const auto& value) { return row_of(value, labels_); }, item));
}

void RowWriter::finish() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  write_all();
  queue_.swap(kept_);
  write_all();
}

}  // namespace mixproof::inference
