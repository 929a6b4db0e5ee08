#!/usr/bin/python3
"""Writes the reference tables of tests/base/*_test.cc from scipy: scipy_oracle.py DIRECTORY.

Debian's python3-scipy made the tables that are committed here (1.10.1); the system test
ScipyOracle makes them again, where scipy is installed, and compares.
"""
import math
import sys

from scipy.stats import beta, binom

CONFIDENCES = (0.9, 0.95, 0.99)


def lower(good, n, confidence):
    return 0.0 if good == 0 else beta.ppf(1 - confidence, good, n - good + 1)


def upper(good, n, confidence):
    return 1.0 if good == n else beta.ppf(confidence, good + 1, n - good)


def clopper_pearson(write):
    write("# One-sided Clopper-Pearson bounds from scipy.stats.beta.ppf:")
    write("#   lower = beta.ppf(1 - c, good, n - good + 1), upper = beta.ppf(c, good + 1, n - good); 0 and 1 at the ends.")
    write("# good n confidence lower upper")
    for n in (1, 2, 10, 59, 93, 148, 662, 1000, 20140):
        for good in sorted({0, 1, 2, n // 2, n * 9 // 10, n - 10, n - 2, n - 1, n} & set(range(n + 1))):
            for c in CONFIDENCES:
                write(f"{good} {n} {c} {lower(good, n, c):.17g} {upper(good, n, c):.17g}")


def ranks(write):
    write("# Ranks (from 1) of the 95 % order-statistic interval of the quantile p of n samples, by scipy.stats.binom:")
    write("# the greatest low with P(B <= low - 1) <= 0.025 and the least high with P(B <= high - 1) >= 0.975; 0 0: none.")
    write("# n p low high")
    for p in (0.5, 0.9, 0.95, 0.99, 0.999):
        for n in (5, 6, 35, 36, 71, 72, 100, 367, 368, 1000, 3687, 3688):
            low = max((r for r in range(1, n + 1) if binom.cdf(r - 1, n, p) <= 0.025), default=0)
            high = min((r for r in range(1, n + 1) if binom.cdf(r - 1, n, p) >= 0.975), default=0)
            write(f"{n} {p} {low} {high}" if low and high else f"{n} {p} 0 0")


def power(write):
    write("# The exact one-sided test of attainment >= p: violations that it tolerates (-1: none), that fail it (n + 1: none),")
    write("# and its chances to pass and to fail at a true attainment, by scipy.stats.binom.")
    write("# n p confidence truth tolerated failing pass fail")
    for n in (20, 59, 93, 300, 662, 1825):
        for p in (0.9, 0.95, 0.99):
            for c in (0.95, 0.99):
                tolerated = max((v for v in range(n + 1) if lower(n - v, n, c) >= p), default=-1)
                failing = min((v for v in range(n + 1) if upper(n - v, n, c) < p), default=n + 1)
                for truth in (1 - (1 - p) / 2, 1 - 2 * (1 - p)):
                    passes = binom.cdf(tolerated, n, 1 - truth) if tolerated >= 0 else 0.0
                    fails = binom.sf(failing - 1, n, 1 - truth)
                    write(f"{n} {p} {c} {truth:.17g} {tolerated} {failing} {passes:.17g} {fails:.17g}")


def main():
    for name, make in (("clopper_pearson.txt", clopper_pearson), ("scipy_ranks.txt", ranks), ("scipy_power.txt", power)):
        with open(f"{sys.argv[1]}/{name}", "w", encoding="ascii") as out:
            make(lambda line: out.write(line + "\n"))


if __name__ == "__main__":
    main()
