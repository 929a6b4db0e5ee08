#!/usr/bin/python3
"""Writes goodness_of_fit_table.h: reference values from scipy (Debian: python3-scipy).

/usr/bin/python3 tests/base/goodness_of_fit_table.py > tests/base/goodness_of_fit_table.h
"""
import scipy
from scipy import stats

print("""// Written by goodness_of_fit_table.py with scipy %s; not by hand.
#pragma once

namespace mixproof::reference {

// P(D_n >= d): scipy.stats.kstwo.sf(d, n).
struct KolmogorovRow {
  int n;
  double d, p;
};
inline constexpr KolmogorovRow kKolmogorov[] = {""" % scipy.__version__)
for n in (1, 2, 5, 10, 20, 50, 100, 140, 141, 200, 500, 1000, 10000, 1000000):
    for x in (0.4, 0.6, 0.83, 1.0, 1.36, 1.63, 1.95, 2.5):
        d = x / n ** 0.5
        if d < 1 and d > 0.5 / n:
            print("    {%d, %.17g, %.17g}," % (n, d, stats.kstwo.sf(d, n)))
print("""};

// Two-sided p of sum (c - mean)^2 / mean with m - 1 degrees of freedom: scipy.stats.chi2.
struct DispersionRow {
  long long counts[12];
  double index, p;
};
inline constexpr DispersionRow kDispersion[] = {""")
for counts in ([5] * 12, [0] * 11 + [60], [4, 6, 5, 3, 8, 5, 2, 7, 6, 4, 5, 5],
               [1, 12, 0, 9, 3, 14, 2, 5, 0, 8, 1, 5], [5, 5, 5, 5, 5, 6, 4, 5, 5, 5, 5, 5],
               [3, 7, 9, 2, 5, 1, 8, 6, 10, 4, 2, 3]):
    mean = sum(counts) / len(counts)
    total = sum((c - mean) ** 2 for c in counts) / mean
    freedom = len(counts) - 1
    p = min(1, 2 * min(stats.chi2.cdf(total, freedom), stats.chi2.sf(total, freedom)))
    print("    {{%s}, %.17g, %.17g}," % (", ".join(map(str, counts)), total / freedom, p))
print("""};

// scipy.stats.gamma.cdf(x, shape, scale=scale)
struct GammaRow {
  double x, shape, scale, cdf;
};
inline constexpr GammaRow kGamma[] = {""")
for shape in (0.25, 1, 4, 30):
    for x in (1e-6, 0.1, 0.7, 1, 2.5, 9):
        print("    {%.17g, %.17g, %.17g, %.17g}," % (x, shape, 1 / shape,
                                                   stats.gamma.cdf(x, shape, scale=1 / shape)))
print("""};

}  // namespace mixproof::reference""")
