// RowList: keeps the rows that a probe emits.
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "probes/probe.h"

namespace mixproof::fake {

class RowList final : public RowSink {
 public:
  void row(const Json& row) override {
    const std::scoped_lock lock(mutex_);
    rows_.push_back(row);
  }
  std::vector<Json> rows() const {
    const std::scoped_lock lock(mutex_);
    return rows_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Json> rows_;
};

}  // namespace mixproof::fake
