#include "harness/base/random.h"

#include <cmath>

namespace mixproof {

double Random::exponential(double rate_per_s) { return -std::log1p(-unit()) / rate_per_s; }

}  // namespace mixproof
