// Whole runs of the built program, as a person or a script starts them: a child with arguments and
// environment in a directory of its own, watched with deadlines and ended by its pid on every path.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/controller/lab.h"
#include "tests/fake/paths.h"

namespace mixproof {

using Seconds = std::chrono::duration<double>;

struct Ended {
  int status = -1;       // exit status; 128 + n when signal n killed it
  bool in_time = false;  // false: the deadline came first and it was killed
  std::string out, err;  // all of stdout and stderr

  bool says(const std::string& text) const { return err.find(text) != std::string::npos; }
};

struct CommandOptions {
  std::string directory;                      // where it runs; its output is kept there too
  std::vector<std::string> environment = {};  // "NAME=value", added to ours
  std::vector<std::string> before = {};  // words before ours: {"setpriv", "--reuid=65534", ...}
  std::string program = kMixproofBinary;
};

// A running program in a process group of its own.
class Command {
 public:
  Command(const std::vector<std::string>& args, const CommandOptions& options);
  ~Command();  // still running: SIGTERM, so that it clears up, then SIGKILL
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  int pid() const { return pid_; }
  void signal(int number) const;        // itself only
  void signal_group(int number) const;  // what a terminal does with Ctrl-C
  std::string err() const;              // so far
  bool wait_for(const std::string& text,
                Seconds deadline);  // on stderr; false when it ended or the time is over
  Ended wait(Seconds deadline);

 private:
  bool reap(Seconds deadline);

  std::string out_path_, err_path_;
  int pid_ = -1, wait_status_ = 0;
  bool running_ = true;
};

// A temporary directory for every test, and commands in it.
class EndToEnd : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::unique_ptr<Command> start(const std::vector<std::string>& args, CommandOptions options = {});
  Ended run(const std::vector<std::string>& args, CommandOptions options = {},
            Seconds deadline = Seconds(60));
  std::string write(const std::string& name, const std::string& text) const;  // its path
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  bool exists(const std::string& name) const;

  static std::string suite(const std::string& name);  // of tests/e2e/suites, with its path
  // A shipped suite with phases that are long enough to judge all checks, whatever they decide; its
  // path.
  std::string shortened(const std::string& name, double measure_s, double around_fault_s) const;
  Json json_file(const std::string& name) const;  // fails the test when it is no JSON
  Json report(const std::string& run_directory) const {
    return json_file(run_directory + "/report.json");
  }
  // What a validator that nobody here wrote says about a document and `mixproof schema KIND`;
  // empty: valid.
  std::string breaks(const std::string& kind, const std::string& file);
  std::vector<Json> recorded(const std::string& run_directory) const;

  std::string directory_;
};

// Runs in labs. The test sees labs of its own only (a mount namespace with its own /run/mixproof),
// and nothing may be left of any of them: no lab, process, mount, loop device or cgroup.
class LabRun : public EndToEnd {
 protected:
  void SetUp() override;
  void TearDown() override;

  static std::string lab_of(const Command& run) { return "run-" + std::to_string(run.pid()); }
  std::unique_ptr<Command> start_run(std::vector<std::string> args, CommandOptions options = {});
  static std::vector<std::string> left_behind();  // everything of ours that exists now
};

// Processes inside a node whose first word is a program of that name or whose second word is that:
// "agent", "worker", "null-server", "haproxy". Empty when there is none.
std::vector<int> processes_in(const std::string& lab, const std::string& node,
                              const std::string& word);

// Waits until there is one and gives the first; 0 when the time is over.
int process_in(const std::string& lab, const std::string& node, const std::string& word,
               Seconds deadline = Seconds(10));

char state_of_process(int pid);  // 'T' stopped or 't' held, 'S' asleep, ...; 0 when it is gone

// Calls until it holds or the time is over.
bool eventually(const std::function<bool()>& holds, Seconds deadline);

}  // namespace mixproof
