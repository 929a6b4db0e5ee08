// ParameterState: stands for the parameters that a rank has after its steps. Each step folds its
// sum over the ranks into a digest, and all bytes of the parameters follow from the digest, the
// number of steps and the rank. So parameters of another step, rank or training, and parameters
// that missed a step, are told from the right ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "harness/base/result.h"

namespace mixproof {

class ParameterState {
 public:
  static constexpr std::int64_t kLeastBytes = 16;

  explicit ParameterState(std::uint64_t seed);

  // One more step, whose sum has this value at an element that the caller picks by the step.
  void apply(float sum);
  std::int64_t steps() const { return steps_; }
  friend bool operator==(const ParameterState&, const ParameterState&) = default;

  // The parameters as bytes; at least kLeastBytes.
  void write(std::int64_t rank, std::span<std::byte> parameters) const;

  // kCorrupt unless all bytes are what write() gives for that rank in some state; which is then
  // returned. Whether it is the right one, comparing says.
  static Result<ParameterState> read(std::int64_t rank, std::span<const std::byte> parameters);

 private:
  ParameterState(std::uint64_t digest, std::int64_t steps) : digest_(digest), steps_(steps) {}
  std::uint64_t key(std::int64_t rank) const;

  std::uint64_t digest_;
  std::int64_t steps_ = 0;
};

}  // namespace mixproof
