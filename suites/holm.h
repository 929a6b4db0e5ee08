// Several limits of method interval in one phase: each of them may go wrong, so their errors share
// one confidence (Holm, "A simple sequentially rejective multiple test procedure", 1979).
#pragma once

#include <functional>
#include <vector>

#include "suites/figure.h"

namespace mixproof {

// Required, not skipped, and of method interval. All others are information.
bool is_primary(const Limit& limit);
int primary_limits(const Plan& plan, const std::string& phase);

// Holm's step-down: a test among m that have not rejected yet must reject with its error divided by
// m. `rejects(test, divisor)` says whether it does. Returns the divisor at which each test was last
// tried: with it, its outcome stands.
std::vector<int> holm_divisors(int tests, const std::function<bool(int, int)>& rejects);

// Sets the ends of the intervals of primary limits of one phase to those that their number leaves,
// for passes and for failures each: so at most 1 - confidence of such phases pass anything wrongly,
// and as many fail anything wrongly. The evidence says so under "holm". Figures without by_divisor
// never reject. One limit alone stays as it is.
struct PrimaryFigure {
  const Limit* limit;
  Figure* figure;
};
void share_confidence(std::vector<PrimaryFigure>& primaries);

}  // namespace mixproof
