// Looks at the threads of given processes for a while: how many stand still in a stop, how many of
// the processes are gone, and how often all threads were switched. The control of faults that stop
// or kill processes.
#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "harness/base/epoll_world.h"
#include "probes/probe.h"

namespace mixproof {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

std::int64_t now_ns() { return nanoseconds(steady_clock::now().time_since_epoch()).count(); }

struct Watched {
  std::string name;
  std::int64_t pid = 0, start_ticks = 0;
  ProcessId id() const { return {static_cast<int>(pid), static_cast<std::uint64_t>(start_ticks)}; }
};

// One look at all processes of a name.
struct Look {
  int threads = 0, stopped = 0, there = 0, gone = 0;
  std::uint64_t switches = 0;

  // Of no threads: what is gone does not stand still.
  double stopped_share() const { return threads == 0 ? 0 : static_cast<double>(stopped) / threads; }
  double gone_share() const { return static_cast<double>(gone) / (there + gone); }
};

// Least and most of what was seen over the window. A thread that is stopped only now and then must
// not pass for one that stands still. Positive controls want proof that all was so all the time,
// negative ones that none was at any time.
class Extremes {
 public:
  void add(double share) {
    least_ = std::min(least_, share);
    most_ = std::max(most_, share);
  }
  double counted(const std::string& control) const {
    return control == "negative" ? most_ : least_;
  }

 private:
  double least_ = 1, most_ = 0;
};

class ProcessProgress final : public Probe {
 public:
  Params params() override {
    return {list_of("processes", "what to look at; filled in from names",
                    [this](std::size_t index) {
                      if (watched_.size() <= index) watched_.resize(index + 1);
                      Watched& one = watched_[index];
                      return Params{required(text("name", &one.name, "name in the run")),
                                    required(integer("pid", &one.pid, "process id", {.min = 2})),
                                    required(integer("start_ticks", &one.start_ticks,
                                                     "start time in ticks", {.min = 0}))};
                    }),
            number("window_s", &window_s_, "how long to look", {.min = 0.05, .max = 60}),
            choice("moment", &moment_, "goes into the rows", {"before", "during", "after", "now"}),
            choice("control", &control_, "goes into the rows", {"positive", "negative", "none"}),
            text("fault", &fault_, "goes into the rows")};
  }

  Cost cost() override { return {}; }

  Status prepare(ProbeContext&) override {
    if (watched_.empty()) return Error{Code::kInvalid, "no process to look at"};
    host_ = make_real_host_view();
    return ok();
  }

  Status run(ProbeContext& context) override {
    const std::int64_t begin = now_ns();
    std::map<std::string, Look> first = TRY(look());
    const auto end = steady_clock::now() + std::chrono::duration_cast<nanoseconds>(
                                               std::chrono::duration<double>(window_s_));
    std::map<std::string, Extremes> stopped, gone;
    const auto count = [&stopped, &gone](const std::map<std::string, Look>& looks) {
      for (const auto& [name, one] : looks) {
        stopped[name].add(one.stopped_share());
        gone[name].add(one.gone_share());
      }
    };
    count(first);
    std::map<std::string, Look> last = first;
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      last = TRY(look());
      count(last);
    } while (steady_clock::now() < end && !context.stop.stop_requested());
    const std::int64_t ended = now_ns();
    for (const auto& [name, one] : last) {
      const std::uint64_t before = first[name].switches;
      const double switches =
          one.switches >= before ? static_cast<double>(one.switches - before) : 0;
      context.rows.row({{"row", "progress"},
                        {"of", name},
                        {"begin", begin},
                        {"end", ended},
                        {"threads", one.threads},
                        {"stopped", one.stopped},
                        {"gone", one.gone},
                        {"stopped_share", stopped[name].counted(control_)},
                        {"gone_share", gone[name].counted(control_)},
                        {"switches", switches},
                        {"switches_per_s", switches * 1e9 / static_cast<double>(ended - begin)},
                        {"moment", moment_},
                        {"control", control_},
                        {"fault", fault_}});
      looked_ += one.threads;
    }
    return ok();
  }

  // Of a positive control, processes that are gone are an answer; of any other they leave nothing
  // to look at.
  Status check(ProbeContext&) override {
    if (looked_ > 0 || control_ == "positive") return ok();
    return Error{Code::kUnavailable, "none of the processes was there"};
  }

 private:
  Result<std::map<std::string, Look>> look() const {
    std::map<std::string, Look> out;
    for (const Watched& one : watched_) {
      Look& sum = out[one.name];
      const Result<std::vector<ThreadState>> threads = host_->threads(one.id());
      if (!threads.ok() && threads.error().code == Code::kUnavailable) {
        ++sum.gone;
        continue;
      }
      if (!threads.ok()) return threads.error();
      ++sum.there;
      for (const ThreadState& thread : *threads) {
        ++sum.threads;
        sum.stopped += thread.stopped() ? 1 : 0;
        sum.switches += thread.switches;
      }
    }
    return out;
  }

  std::vector<Watched> watched_;
  std::unique_ptr<HostView> host_;
  double window_s_ = 0.4;
  std::string moment_ = "now", control_ = "none", fault_;
  int looked_ = 0;
};

constexpr MetricSpec kMetrics[] = {
    {"process.progress", "1/s", Better::kNone, "context switches of all threads a second"},
    {"process.stopped_share", "1", Better::kNone,
     "share of threads in a stop, least (positive control) or most (negative)"},
    {"process.gone_share", "1", Better::kNone,
     "share of processes that have ended, least (positive control) or most (negative)"},
};

}  // namespace

extern const ProbeSpec process_progress_probe;
const ProbeSpec process_progress_probe = {
    .name = "process_progress",
    .summary = "Whether given processes are there and move: thread states and context switches.",
    .load = false,
    .generator = true,
    .ranks = false,
    .metrics = kMetrics,
    .create = []() -> std::unique_ptr<Probe> { return std::make_unique<ProcessProgress>(); },
};

}  // namespace mixproof
