// What a Run keeps about its workers. Private to harness/controller/run*.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/controller/run.h"

namespace mixproof {

inline Time run_seconds(double seconds) { return Time(static_cast<std::int64_t>(seconds * 1e9)); }

struct Run::LoadTask {
  std::string name;  // "users[0]"; "users[0]#1" in its second stretch
  const LoadPlan* load = nullptr;
  std::size_t span = 0;  // index into the schedule's loads
  int stretch = 0;       // 1 in "#1"
  int attempt = 0;       // how often its ranks have begun anew
  int rank = 0, ranks = 1;
  std::string node;
  bool collects = false;  // signals; its loss takes only these along
  bool started = false, ready = false, running = false, done = false, gone = false;
};

}  // namespace mixproof
