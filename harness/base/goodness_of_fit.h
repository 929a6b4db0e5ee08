// Goodness of fit: do samples come from the distribution that was declared?
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace mixproof {

// Distance of Kolmogorov and Smirnov between the samples and a continuous distribution F, given the
// values F(x), ascending.
double ks_distance(std::span<const double> sorted_cdf);
// The same where each sample is known to lie between two values only: the least distance that they
// allow. Both ascending: F of the low ends and of the high ends.
double ks_distance_at_least(std::span<const double> sorted_low,
                            std::span<const double> sorted_high);
// Between the distributions of two sets of samples; both ascending.
double ks_distance_of_two(std::span<const double> a, std::span<const double> b);

// P(distance of n samples of F to F >= d). Up to 140 samples exact (Marsaglia, Tsang, Wang:
// "Evaluating Kolmogorov's distribution", J. Stat. Softw. 8(18), 2003), beyond that Kolmogorov's
// limit at a corrected argument (Vrbik: "Small-sample corrections to Kolmogorov-Smirnov test
// statistic", Pioneer J. Theor. Appl. Stat. 15, 2018), good to 2e-4.
double kolmogorov_p(double distance, std::int64_t n);

// Index of dispersion of counts in m equal cells: variance over mean, sum (c - mean)^2 / ((m - 1)
// mean). 1 for points that fall independently of each other, below 1 for regular ones, above 1 for
// clumps. p is two-sided, by chi-square with m - 1 degrees of freedom. Nothing below two cells or
// without a count.
struct Dispersion {
  double index = 1, p = 1;
};
std::optional<Dispersion> dispersion_of(std::span<const std::int64_t> counts);

// F of a gamma distribution with that shape and mean `shape * scale`, and 1 - F.
double gamma_cdf(double x, double shape, double scale);
double gamma_tail(double x, double shape, double scale);

}  // namespace mixproof
