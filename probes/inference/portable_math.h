// Logarithms, exponentials and random variates from the four operations and the square root alone,
// which IEEE 754 rounds alike everywhere: libraries of two machines differ in the last bit of
// log(), and one bit changes the hash of a schedule. The sources that are to give the same bits are
// compiled without contraction of products and sums (CMakeLists.txt).
#pragma once

#include "harness/base/random.h"

namespace mixproof::inference {

double log_of(double x);  // natural; x > 0, finite and normal; relative error about 2^-51
double exp_of(double x);  // |x| <= 700

double unit_exponential(Random& random);  // mean 1
double unit_normal(Random& random);       // polar method of Marsaglia
// Mean 1, shape > 0: Marsaglia and Tsang, "A simple method for generating gamma variables", ACM
// TOMS 26 (2000); below shape 1 by its boost U^(1/shape).
double unit_gamma(double shape, Random& random);

}  // namespace mixproof::inference
