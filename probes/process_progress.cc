// Looks at the threads of given processes for a while: how many stand still in a stop, and how
// often all of them were switched. The control of faults that stop or kill processes.
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
  int threads = 0, stopped = 0, gone = 0;
  std::uint64_t switches = 0;
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
    // A thread that is stopped only now and then must not pass for one that stands still: the least
    // share counts.
    std::map<std::string, double> least, most;
    std::map<std::string, Look> last = first;
    do {
      for (const auto& [name, one] : last) {
        const double share = one.threads == 0 ? 0 : static_cast<double>(one.stopped) / one.threads;
        least[name] = least.count(name) == 0 ? share : std::min(least[name], share);
        most[name] = std::max(most[name], share);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      last = TRY(look());
    } while (steady_clock::now() < end && !context.stop.stop_requested());
    const std::int64_t ended = now_ns();
    for (const auto& [name, one] : last) {
      const std::uint64_t before = first[name].switches;
      const double switches =
          one.switches >= before ? static_cast<double>(one.switches - before) : 0;
      // Positive controls want proof that all stood still all the time, negative ones that none did
      // at any time.
      const double share = control_ == "negative" ? most[name] : least[name];
      context.rows.row({{"row", "progress"},
                        {"of", name},
                        {"begin", begin},
                        {"end", ended},
                        {"threads", one.threads},
                        {"stopped", one.stopped},
                        {"gone", one.gone},
                        {"stopped_share", share},
                        {"switches", switches},
                        {"switches_per_s", switches * 1e9 / static_cast<double>(ended - begin)},
                        {"moment", moment_},
                        {"control", control_},
                        {"fault", fault_}});
      looked_ += one.threads;
    }
    return ok();
  }

  Status check(ProbeContext&) override {
    if (looked_ > 0) return ok();
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
};

}  // namespace

extern const ProbeSpec process_progress_probe;
const ProbeSpec process_progress_probe = {
    .name = "process_progress",
    .summary = "Whether given processes move: thread states and context switches.",
    .load = false,
    .generator = true,
    .ranks = false,
    .metrics = kMetrics,
    .create = []() -> std::unique_ptr<Probe> { return std::make_unique<ProcessProgress>(); },
};

}  // namespace mixproof
