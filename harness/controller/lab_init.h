// The processes that hold a lab: PID 1 of each node and the fabric, which keeps the bridge's
// network namespace.
#pragma once

#include <chrono>
#include <span>

#include "harness/base/unique_fd.h"
#include "harness/controller/lab.h"

namespace mixproof {

// `mixproof lab-init --lab NAME (--fabric | --node NODE --index I)`: makes the namespaces, tells
// its starter on descriptor 3 (JSON lines: {"pid"}, {"ready"}, {"error"}) and stays until it is
// killed. It keeps nothing of its starter: no descriptor, terminal, session or directory. Only for
// lab_up.
int lab_init_main(std::span<const std::string> args);

// Starting one, and waiting for it. The process sits in `cgroup` before it does anything else.
struct InitStart {
  std::string lab, node;  // node empty: the fabric
  std::size_t index = 0;  // of the node; its clocks are shifted by it
  std::string binary, cgroup, log;
};
class StartingInit {
 public:
  static Result<StartingInit> start(const InitStart& what);
  Result<int> wait_ready(std::chrono::steady_clock::time_point until);  // its pid as seen from here

 private:
  StartingInit(std::string name, int starter, int report, std::string log)
      : name_(std::move(name)), starter_(starter), report_(report), log_(std::move(log)) {}
  Error failure(Error error);

  std::string name_;
  int starter_ = 0;  // a child of ours; ends when it has forked the init
  UniqueFd report_;
  std::string log_;
};

}  // namespace mixproof
