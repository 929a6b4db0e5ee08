// Gradient: the values that a training rank hands to the all-reduce, and what their sum must be.
//
// Values follow from seed, rank, step and index, and are integers in [-2048, 2047]: sums over up to
// 8192 ranks are exact in single precision in any order, so the check needs no tolerance and any
// rank can do it alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "harness/base/result.h"

namespace mixproof {

struct GradientKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
};

float gradient_value(const GradientKey& key, int rank, std::size_t index);
void fill_gradient(const GradientKey& key, int rank, std::span<float> gradient);

// kCorrupt with the first element that is not the sum over all ranks.
Status verify_whole_sum(const GradientKey& key, int ranks, std::span<const float> sum);

// The same for the first and the last element and `samples` others, drawn anew each step.
Status verify_sampled_sum(const GradientKey& key, int ranks, std::span<const float> sum,
                          int samples);

}  // namespace mixproof
