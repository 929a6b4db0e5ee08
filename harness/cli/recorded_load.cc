#include "harness/cli/recorded_load.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/base/cpus.h"
#include "harness/base/random.h"
#include "harness/base/spawn.h"
#include "harness/cli/command.h"
#include "probes/inference/clock.h"
#include "probes/inference/own_process.h"

namespace mixproof {
namespace {

using inference::kMillisecond;
using inference::kSecond;
using inference::monotonic_ns;

constexpr std::int64_t kReadyTime = 15 * kSecond, kGrace = 15 * kSecond;
constexpr std::int64_t kLead = 200 * kMillisecond;  // from the order to the begin of the phase

std::int64_t ns(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

class Worker {
 public:
  explicit Worker(Spawned spawned) : spawned_(std::move(spawned)) {}
  ~Worker() {
    ::kill(spawned_.pid, SIGKILL);
    while (::waitpid(spawned_.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int pid() const { return spawned_.pid; }

  Status say(const Json& message) {
    const std::string text = line_of(message) + "\n";  // short: it fits into the pipe
    if (::write(spawned_.input.get(), text.data(), text.size()) !=
        static_cast<ssize_t>(text.size()))
      return system_error("write to the worker");
    return ok();
  }

  // The next line; calls `watch` while there is none. kTimeout at the deadline.
  Result<Json> next(std::int64_t deadline, const std::function<Status(std::int64_t)>& watch) {
    while (true) {
      const std::size_t end = text_.find('\n', taken_);
      if (end != std::string::npos) {
        const std::string line = text_.substr(taken_, end - taken_);
        taken_ = end + 1;
        return parse_json(line, "worker");
      }
      text_.erase(0, taken_);
      taken_ = 0;
      const std::int64_t now = monotonic_ns();
      if (now >= deadline) return Error{Code::kTimeout, "the worker did not end in time"};
      if (watch) TRY(watch(now));
      TRY(read_some());
    }
  }

 private:
  Status read_some() {
    pollfd waiting{spawned_.output.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 1) <= 0) return ok();
    buffer_.resize(256 * 1024);
    const ssize_t n = ::read(spawned_.output.get(), buffer_.data(), buffer_.size());
    if (n < 0 && errno == EINTR) return ok();
    if (n < 0) return system_error("read from the worker");
    if (n == 0) return Error{Code::kPeerLost, "the worker ended without a word"};
    text_.append(buffer_.data(), static_cast<std::size_t>(n));
    return ok();
  }

  Spawned spawned_;
  std::string text_;
  std::size_t taken_ = 0;
  std::vector<char> buffer_;
};

// A child inherits our processor.
Result<Spawned> spawn_on(int cpu) {
  const std::vector<int> before = allowed_cpus();
  TRY(run_on_cpus(cpu < 0 ? before : std::vector<int>{cpu}));
  Result<Spawned> spawned = spawn_process({.argv = {program_path(), "worker"}});
  TRY(run_on_cpus(before));
  return spawned;
}

Json phases_json(const PhasePlan& phase, std::int64_t begin) {
  const Json one = {
      {"name", phase.name}, {"begin_ns", begin}, {"end_ns", begin + ns(phase.length_s())}};
  return Json::array({one});
}

Json spec_of(const Plan& plan) {
  const LoadPlan& load = plan.loads.front();
  Json params = load.params;
  params["url"] = plan.service(load.target)->url;
  return {{"probe", load.probe},
          {"params", params},
          {"seed", Random(plan.seed, load.name).next() >> 1},
          {"name", load.name},
          {"node", load.nodes.front()},
          {"address", "127.0.0.1"},
          {"rank", 0},
          {"ranks", 1},
          {"phases", phases_json(plan.phases.front(), 0)}};
}

class Recorder {
 public:
  explicit Recorder(const Plan& plan)
      : plan_(plan), load_(plan.loads.front()), phase_(plan.phases.front()) {
    const std::int64_t now = monotonic_ns();
    const std::string& node = load_.nodes.front();
    add({{"row", "begin"}, {"at", now}, {"utc_ns", 0}, {"run", "doctor"}, {"seed", plan.seed}});
    // One machine, one clock.
    add({{"row", "clock"}, {"node", node}, {"at", now}, {"offset_ns", 0}, {"uncertainty_ns", 1}});
  }

  void ready(const Json& message) {
    const Json* info = member(message, "info");
    add({{"row", "ready"},
         {"what", load_.name},
         {"node", load_.nodes.front()},
         {"info", info == nullptr ? Json::object() : *info}});
  }

  void phase(std::int64_t begin) {
    end_ = begin + ns(phase_.length_s());
    add({{"row", "phase"},
         {"name", phase_.name},
         {"begin", begin},
         {"settled", begin + ns(phase_.settle_s)},
         {"end", end_}});
  }

  void row(Json row) {
    row["node"] = load_.nodes.front();
    row["load"] = load_.name;
    if (text_at(row, "row") == "request") out_.sched.push_back(integer_at(row, "sched"));
    add(std::move(row));
  }

  void error(const Json& error) {
    add({{"row", "error"},
         {"what", load_.name},
         {"node", load_.nodes.front()},
         {"code", text_at(error, "code")},
         {"message", text_at(error, "message")}});
  }

  RecordedLoad finish() {
    const std::int64_t now = std::max(end_, monotonic_ns());
    add({{"row", "phase_end"}, {"name", phase_.name}, {"at", end_}, {"complete", true}});
    add({{"row", "stop"}, {"at", now}, {"why", "end"}});
    add({{"row", "end"}, {"at", now}});
    return std::move(out_);
  }

 private:
  void add(Json row) { out_.rows.push_back(std::move(row)); }

  const Plan& plan_;
  const LoadPlan& load_;
  const PhasePlan& phase_;
  std::int64_t end_ = 0;
  RecordedLoad out_;
};

}  // namespace

Result<RecordedLoad> record_load(const Plan& plan, int cpu, const LoadWatch& watch) {
  const PhasePlan& phase = plan.phases.front();
  Worker worker(TRY(spawn_on(cpu)));
  Recorder recorder(plan);
  TRY(worker.say({{"worker", spec_of(plan)}}));
  const Json first = TRY(worker.next(monotonic_ns() + kReadyTime, {}));
  if (const Json* failed = member(first, "failed")) return error_from_json(*failed);
  recorder.ready(first);
  const std::int64_t begin = monotonic_ns() + kLead;
  recorder.phase(begin);
  TRY(worker.say({{"do", "go"}, {"phases", phases_json(phase, begin)}}));
  const std::int64_t deadline = begin + ns(phase.length_s()) +
                                ns(number_at(plan.loads.front().params, "deadline_s", 10)) + kGrace;
  while (true) {
    const Json message = TRY(worker.next(deadline, [&](std::int64_t now) -> Status {
      return watch ? watch(worker.pid(), begin, now) : ok();
    }));
    if (const Json* row = member(message, "row")) recorder.row(*row);
    if (const Json* failed = member(message, "failed")) return error_from_json(*failed);
    const Json* done = member(message, "done");
    if (done == nullptr) continue;
    const Json* check = member(*done, "check");
    if (check == nullptr || !flag_at(*check, "ok"))
      recorder.error(check == nullptr ? *done : *check);
    return recorder.finish();
  }
}

}  // namespace mixproof
