// ThreadGroup: the ranks of a load as threads of one process; stands in for the controller's
// all-gather.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harness/base/text.h"
#include "probes/probe.h"

namespace mixproof::fake {

class ThreadGroup {
 public:
  // Deadlines of all-gathers are cut to `longest_wait`, so that tests of absent ranks are short.
  explicit ThreadGroup(int size, std::chrono::milliseconds longest_wait = std::chrono::seconds(10))
      : size_(size), longest_wait_(longest_wait) {}

  // Runs `body` once a rank, each in a thread of its own, and waits for all of them.
  void run(const std::function<void(Group&)>& body) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([this, rank, &body] {
        Member member(*this, rank);
        body(member);
      });
    }
  }

 private:
  class Member final : public Group {
   public:
    Member(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return group_.size_; }
    Result<std::vector<std::string>> all_gather(const std::string& name, const std::string& blob,
                                                std::chrono::milliseconds deadline) override {
      return group_.gather(rank_, name, blob, deadline);
    }

   private:
    ThreadGroup& group_;
    int rank_;
  };

  Result<std::vector<std::string>> gather(int rank, const std::string& name,
                                          const std::string& blob,
                                          std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex_);
    auto& blobs = gathered_[name];
    blobs.emplace(rank, blob);
    changed_.notify_all();
    const auto complete = [&] { return static_cast<int>(blobs.size()) == size_; };
    if (changed_.wait_for(lock, std::min(deadline, longest_wait_), complete)) {
      std::vector<std::string> all;
      for (const auto& [from, bytes] : blobs) all.push_back(bytes);
      return all;
    }
    std::vector<std::string> absent;
    for (int other = 0; other < size_; ++other)
      if (!blobs.contains(other)) absent.push_back("rank " + std::to_string(other));
    return Error{Code::kTimeout, name + ": absent: " + join(absent, ", ")};
  }

  int size_;
  std::chrono::milliseconds longest_wait_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::map<int, std::string>> gathered_;
};

}  // namespace mixproof::fake
