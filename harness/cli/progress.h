// Progress of a run on the terminal: a line a phase, a line for each change of a fault, and on a
// terminal one live line. Everything goes to stderr.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/base/world.h"
#include "suites/plan.h"

namespace mixproof {

class Progress {
 public:
  Progress(World& world, const Plan& plan, bool terminal);

  void note(const std::string& text);
  void phase(const std::string& name, Time begin, Time end);
  void row(const Json& row);

 private:
  struct Users {
    std::vector<double> ttft_s;  // infinite where there was no answer
    int bad = 0;
    double longest_wait_s = 0;
  };
  void line(const std::string& text);
  void live();
  void close_phase();
  std::string figures() const;
  std::string words_of_fault(const Json& row) const;
  bool runs_now(const std::string& load) const;

  World& world_;
  const Plan& plan_;
  bool terminal_, live_shown_ = false;
  std::string phase_;
  Time begin_{0}, end_{0};
  Users users_;
  int steps_ = 0;
  std::map<std::pair<std::string, std::string>, std::string>
      faults_;  // in effect: words by id and node
};

}  // namespace mixproof
