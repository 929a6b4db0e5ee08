#include "harness/cli/doctor_faults.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <thread>

#include "faults/fault.h"
#include "harness/base/cgroup.h"
#include "harness/base/spawn.h"
#include "harness/base/text.h"
#include "harness/cli/command.h"
#include "harness/cli/signals_held.h"
#include "harness/controller/lab.h"

namespace mixproof {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kDryRunTime = std::chrono::seconds(15);
constexpr auto kEffectTime = std::chrono::seconds(20);
constexpr auto kRecoverTime = std::chrono::seconds(40);
constexpr auto kPoll = std::chrono::milliseconds(10);
constexpr const char* kLease = "3s";

// Never rests for long and never hogs a processor: what faults on processes want to see.
constexpr const char* kVictim =
    "while :; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; sleep 0.005; done";

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool eventually(Clock::time_point deadline, const std::function<bool()>& holds) {
  while (!holds()) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

// A command of this program, or another one, whose words go into a file. Killed when it goes.
class Running {
 public:
  static Result<std::unique_ptr<Running>> start(std::vector<std::string> argv, std::string log,
                                                std::string cgroup = "") {
    // Words of an earlier command under that name are not this one's.
    std::ofstream(log, std::ios::trunc).flush();
    Spawned child = TRY(spawn_process({.argv = std::move(argv),
                                       .environment = {},
                                       .cgroup = std::move(cgroup),
                                       .cpus = {},
                                       .log = log,
                                       .lines = false}));
    return std::unique_ptr<Running>(new Running(std::move(child), std::move(log)));
  }
  ~Running() {
    if (ended()) return;
    ::kill(child_.pid, SIGKILL);
    ::waitpid(child_.pid, nullptr, 0);
  }

  int pid() const { return child_.pid; }
  bool ended() {
    if (!status_)
      if (int status = 0; ::waitpid(child_.pid, &status, WNOHANG) == child_.pid)
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return status_.has_value();
  }
  int status() const { return status_.value_or(-1); }  // -1: killed, or still there
  std::string output() const { return content(log_); }
  // For people: its last line without the name of the command.
  std::string last_words() const {
    std::string last;
    for (const std::string& line : split(output(), '\n'))
      if (!line.empty()) last = line;
    const std::string name = "mixproof fault: ";
    return starts_with(last, name) ? last.substr(name.size()) : last;
  }

 private:
  Running(Spawned child, std::string log) : child_(std::move(child)), log_(std::move(log)) {}
  Spawned child_;
  std::string log_;
  std::optional<int> status_;
};

// All below it, nearest first.
void add_descendants(int pid, std::vector<int>& out) {
  std::istringstream children(content(format("/proc/%d/task/%d/children", pid, pid)));
  for (int child = 0; children >> child;) {
    out.push_back(child);
    add_descendants(child, out);
  }
}

bool has_role(int pid) {
  const std::vector<std::string> words = split(content(format("/proc/%d/cmdline", pid)), '\0');
  return words.size() > 1 && words[0] == program_path() &&
         (words[1] == "agent" || words[1] == "guard");
}

// The number that a process has in its own namespace.
std::string inner_pid(int pid) {
  std::istringstream status(content(format("/proc/%d/status", pid)));
  for (std::string line; std::getline(status, line);)
    if (starts_with(line, "NSpid:")) return line.substr(line.rfind('\t') + 1);
  return "";
}

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

class DrillLab {
 public:
  static Result<std::unique_ptr<DrillLab>> make() {
    LabRequest request;
    request.name = format("doctor-%d", ::getpid());
    for (int i = 0; i < 2; ++i)
      request.nodes.emplace_back(format("doctor-%d-%d", ::getpid(), i), "drill");
    request.shared_bytes = 64 << 20;
    std::unique_ptr<DrillLab> out(new DrillLab);
    out->lab_ = TRY(lab_up(request));
    if (Status ready = out->prepare(); !ready.ok()) {
      static_cast<void>(out->take_down());
      return std::move(ready).error();
    }
    return out;
  }
  Status take_down() { return lab_down(lab_.name); }

  const LabNode& node() const { return lab_.nodes[0]; }
  const LabNode& peer() const { return lab_.nodes[1]; }
  std::size_t clean_journals = 0;  // on node()
  std::string log(const std::string& name) const { return lab_.dir + "/" + name + ".log"; }

 private:
  DrillLab() = default;
  Status prepare() const {
    TRY(lab_claim(lab_));
    // Of agents that are started by hand; stays with the lab.
    for (const LabNode& node : lab_.nodes) TRY(cgroup_create(node.cgroup + "/by-hand", ""));
    return ok();
  }
  Lab lab_;
};

class Drill {
 public:
  Drill(DrillLab& lab, const FaultSpec& spec) : lab_(lab), spec_(spec) {
    out_.fault = std::string(spec.name);
    out_.residual_life = std::string(spec.residual_life);
  }

  FaultDrill go() {
    const Status status = drill();
    if (!status.ok()) end(DrillState::kError, status.error().message);
    return out_;
  }

 private:
  void end(DrillState state, std::string reason) {
    out_.state = state;
    out_.reason = std::move(reason);
  }

  Status start_victim() {
    if (spec_.hits != Hits::kProcesses) return ok();
    std::vector<std::string> argv = lab_prefix(lab_.node());
    argv.insert(argv.end(), {"sh", "-c", kVictim});
    victim_ =
        TRY(Running::start(std::move(argv), lab_.log("victim"), lab_.node().cgroup + "/victim"));
    std::vector<int> below;
    const bool there = eventually(Clock::now() + kDryRunTime, [&] {
      below.clear();
      add_descendants(victim_->pid(), below);
      return !below.empty() &&
             content(format("/proc/%d/cmdline", below[0])).find("while :") != std::string::npos;
    });
    if (!there) return Error{Code::kTimeout, "its victim did not start: " + victim_->last_words()};
    victim_pid_ = below[0];
    return ok();
  }

  std::vector<std::string> inject_words() const {
    std::vector<std::string> words = {program_path(), "fault", "inject",
                                      out_.fault,     "--on",  lab_.node().name};
    if (spec_.hits == Hits::kProcesses)
      words.insert(words.end(), {"--pid", inner_pid(victim_pid_)});
    if (spec_.hits == Hits::kPeers) words.insert(words.end(), {"--from", lab_.peer().name});
    for (const std::string& one : split(std::string(spec_.drill), ' '))
      if (!one.empty()) words.insert(words.end(), {"--param", one});
    return words;
  }

  // False, with the state set, when the node's plan refuses it.
  Result<bool> possible() {
    std::vector<std::string> words = inject_words();
    words.push_back("--dry-run");
    const auto command = TRY(Running::start(words, lab_.log("plan")));
    if (!eventually(Clock::now() + kDryRunTime, [&] { return command->ended(); }))
      return Error{Code::kTimeout, "its plan was not made in time"};
    if (command->status() == 0) return true;
    const bool refused = command->status() == 4 || command->status() == 6;
    end(refused ? DrillState::kNotHere : DrillState::kError, command->last_words());
    return false;
  }

  Result<std::unique_ptr<Running>> inject() {
    std::vector<std::string> words = inject_words();
    words.insert(words.end(), {"--yes", "--lease", kLease});
    return Running::start(words, lab_.log("inject"));
  }

  // True when it said so in time; else the state is set.
  bool becomes(Running& command, const std::string& state) {
    const std::string words = out_.fault + ": " + state;
    const bool said = eventually(Clock::now() + kEffectTime, [&] {
      return command.output().find(words) != std::string::npos || command.ended();
    });
    if (said && command.output().find(words) != std::string::npos) return true;
    // "not here" only when nothing was begun.
    const bool refused = command.ended() && command.status() == 6;
    end(refused ? DrillState::kNotHere : DrillState::kFail,
        said ? command.last_words() : "not " + state + " in time: " + command.last_words());
    return false;
  }

  Status drill() {
    TRY(start_victim());
    if (!TRY(possible())) return ok();
    const auto begin = Clock::now();
    const auto command = TRY(inject());
    const bool effective = becomes(*command, "effective");
    if (effective) out_.effective_s = seconds_since(begin);
    const auto since = Clock::now();
    // Nobody keeps what is over at once. What did not work must not begin after the proof.
    const bool kept = spec_.effect == Effect::kSustained || !effective;
    out_.killed = kept && !command->ended();
    if (out_.killed) kill_all(*command);
    return prove_clean(since, effective);
  }

  // Stopped first, so that none acts on the death of another.
  void kill_all(const Running& command) {
    std::vector<int> below, ours = {command.pid()};
    add_descendants(command.pid(), below);
    std::copy_if(below.begin(), below.end(), std::back_inserter(ours), has_role);
    for (const int signal : {SIGSTOP, SIGKILL})
      for (const int pid : ours) ::kill(pid, signal);
  }

  Status prove_clean(Clock::time_point since, bool passes) {
    const auto recover = TRY(Running::start(
        {program_path(), "fault", "recover", "--on", lab_.node().name}, lab_.log("recover")));
    const bool ended = eventually(Clock::now() + kRecoverTime, [&] { return recover->ended(); });
    if (!ended || recover->status() != 0) {
      end(DrillState::kDirty, ended ? recover->last_words() : "recover did not end");
      return ok();
    }
    out_.clean_s = seconds_since(since);
    // A node that knows of no fault has nothing to prove.
    const std::size_t told = count_of(recover->output(), "by-hand/0  clean");
    if (passes && told != lab_.clean_journals + 1) {
      end(DrillState::kError,
          format("%zu journals say clean, %zu were there before", told, lab_.clean_journals));
      return ok();
    }
    lab_.clean_journals = told;
    if (passes) end(DrillState::kPass, "");
    return ok();
  }

  DrillLab& lab_;
  const FaultSpec& spec_;
  FaultDrill out_;
  std::unique_ptr<Running> victim_;
  int victim_pid_ = 0;
};

Result<std::vector<const FaultSpec*>> chosen(const std::vector<std::string>& only) {
  std::vector<const FaultSpec*> out;
  std::vector<std::string> names;
  for (const FaultSpec* spec : all_faults()) {
    names.emplace_back(spec->name);
    if (only.empty() || std::find(only.begin(), only.end(), spec->name) != only.end())
      out.push_back(spec);
  }
  for (const std::string& name : only)
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      const std::string near = nearest(name, names);
      return Error{Code::kInvalid, "there is no fault " + name +
                                       (near.empty() ? "" : "; did you mean " + near + "?")};
    }
  return out;
}

}  // namespace

std::string_view drill_state_name(DrillState state) {
  switch (state) {
    case DrillState::kPass:
      return "pass";
    case DrillState::kNotHere:
      return "not here";
    case DrillState::kFail:
      return "fail";
    case DrillState::kDirty:
      return "dirty";
    case DrillState::kError:
      return "error";
  }
  return "error";
}

Result<std::vector<FaultDrill>> doctor_faults(const DoctorFaultsOptions& options) {
  const std::vector<const FaultSpec*> specs = TRY(chosen(options.only));
  const SignalsHeld held;
  const std::unique_ptr<DrillLab> lab = TRY(DrillLab::make());
  std::vector<FaultDrill> out;
  for (const FaultSpec* spec : specs) {
    if (held.arrived() != 0) break;
    out.push_back(Drill(*lab, *spec).go());
    if (options.progress) options.progress(out.back());
    if (out.back().state == DrillState::kDirty) break;  // the node takes no further fault
  }
  TRY(lab->take_down());
  // Whoever ignores the signal must not take some drills for all of them.
  if (held.arrived() != 0)
    return Error{Code::kSystem, format("interrupted after %zu of %zu drills; their lab is gone",
                                       out.size(), specs.size())};
  return out;
}

}  // namespace mixproof
