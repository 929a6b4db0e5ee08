// Gemm: the compute step of a training rank on a CPU: C = A B in single precision with OpenBLAS on
// one thread.
//
// A and B hold integers in [-8, 8], so that every partial sum is exact in single precision whatever
// the order of the additions (n * 64 <= 2^24), and the check needs no tolerance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/base/result.h"

namespace mixproof {

class Gemm {
 public:
  static constexpr std::int64_t kMaxSize = 1 << 14;

  // n x n, 1 <= n <= kMaxSize. The matrices follow from the seed.
  static Result<Gemm> create(std::int64_t n, std::uint64_t seed);

  // Multiplies once, into product().
  void multiply();

  // Freivalds' check (Freivalds, "Probabilistic machines can use less running time", IFIP 1977): C
  // r = A (B r) for the next of a few fixed vectors r of +-1. One wrong element is always caught,
  // any other error in at least half of the checks. kCorrupt with the row and both values.
  Status verify();

  std::span<float> product() { return c_; }  // column after column
  static std::string
  core_name();  // the kernels that OpenBLAS chose: "Haswell"; a label of every figure

 private:
  static constexpr std::size_t kVectors = 4;
  explicit Gemm(std::size_t n) : n_(n) {}

  std::size_t n_;
  std::vector<float> a_, b_, c_;
  std::vector<std::vector<double>> vectors_,
      expected_;  // r and A (B r), computed without the library
  std::vector<double> scratch_;
  std::size_t next_ = 0;
};

}  // namespace mixproof
