// Moving-block bootstrap: intervals of ratios between stretches of time whose samples share their
// fate with their neighbours (Künsch 1989; Liu and Singh 1992). Whole blocks of time are drawn, so
// that bursts stay bursts. Deterministic: the same samples and the same Random give the same
// numbers.
#pragma once

#include <span>
#include <vector>

#include "harness/base/random.h"
#include "harness/base/statistics.h"

namespace mixproof {

inline constexpr int kLeastBlocks = 20;  // below that the spread between blocks is not known
inline constexpr int kBootstrapDraws = 2000;

struct TimedSample {
  double at_s = 0;   // from the begin of its segment
  double value = 0;  // for rates: how long the event lasts from at_s on
};

// A stretch of time in which samples were taken, ascending by at_s. Several segments (rounds) are
// drawn from as one pool; no block crosses from one into another.
struct Segment {
  double length_s = 0;
  std::vector<TimedSample> samples;
};

int whole_blocks(std::span<const Segment> segments, double block_s);

// Each returns one figure for every draw of whole_blocks - 1 blocks, each beginning at any
// sixteenth of a block. One less, because the spread of n blocks around their own mean is that of n
// - 1 around the true one. The segments must hold at least two blocks. NaN where the blocks drawn
// held no sample.
//
// Simulated at the limit with 20 to 40 blocks, at 95 %: the true ratio lies beyond either end in 4
// to 6 % of runs when samples share their fate for up to half a block, as the length of a block is
// meant to see to; in 7 to 9 % when for a whole one.
std::vector<double> resampled_quantiles(std::span<const Segment> segments, double block_s, double p,
                                        int draws, Random random);
std::vector<double> resampled_means(std::span<const Segment> segments, double block_s, int draws,
                                    Random random);
// Events a second; an event counts with the share of it that lies in a block.
std::vector<double> resampled_rates(std::span<const Segment> segments, double block_s, int draws,
                                    Random random);

// Percentile interval of figure / reference, draw by draw; each end is a one-sided bound at
// `confidence`. Percentiles of the ratio are those of its logarithm, so none is taken. A draw
// without a ratio (the reference is zero, infinite or not there) counts against both ends: below
// the lower and above the upper one.
Interval ratio_interval(std::span<const double> figures, std::span<const double> references,
                        double confidence);

// The same of figure - reference.
Interval difference_interval(std::span<const double> figures, std::span<const double> references,
                             double confidence);

}  // namespace mixproof
