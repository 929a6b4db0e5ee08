#include "probes/backends/cpu/gemm.h"

#include <cblas.h>

#include <algorithm>

#include "harness/base/random.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

void fill(std::vector<float>& matrix, Random random) {
  for (float& value : matrix) value = static_cast<float>(static_cast<int>(random.below(17)) - 8);
}

// y = M x of a matrix stored column after column.
void apply(std::span<const float> matrix, std::span<const double> x, std::span<double> y) {
  const std::size_t n = x.size();
  std::fill(y.begin(), y.end(), 0.0);
  for (std::size_t column = 0; column < n; ++column) {
    const float* values = matrix.data() + column * n;
    for (std::size_t row = 0; row < n; ++row)
      y[row] += static_cast<double>(values[row]) * x[column];
  }
}

}  // namespace

Result<Gemm> Gemm::create(std::int64_t n, std::uint64_t seed) {
  if (n < 1 || n > kMaxSize)
    return Error{Code::kInvalid, format("matrices of %lld x %lld: the size must be 1 to %lld",
                                        static_cast<long long>(n), static_cast<long long>(n),
                                        static_cast<long long>(kMaxSize))};
  openblas_set_num_threads(1);
  Gemm gemm(static_cast<std::size_t>(n));
  const std::size_t elements = gemm.n_ * gemm.n_;
  gemm.a_.resize(elements);
  gemm.b_.resize(elements);
  gemm.c_.resize(elements);
  gemm.scratch_.resize(gemm.n_);
  fill(gemm.a_, Random(seed, "gemm a"));
  fill(gemm.b_, Random(seed, "gemm b"));
  Random random(seed, "gemm check");
  for (std::size_t i = 0; i < kVectors; ++i) {
    std::vector<double> r(gemm.n_), result(gemm.n_);
    for (double& value : r) value = random.below(2) == 0 ? -1.0 : 1.0;
    apply(gemm.b_, r, gemm.scratch_);
    apply(gemm.a_, gemm.scratch_, result);
    gemm.vectors_.push_back(std::move(r));
    gemm.expected_.push_back(std::move(result));
  }
  return gemm;
}

void Gemm::multiply() {
  const int n = static_cast<int>(n_);
  cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0F, a_.data(), n, b_.data(), n,
              0.0F, c_.data(), n);
}

Status Gemm::verify() {
  const std::size_t i = next_++ % kVectors;
  apply(c_, vectors_.at(i), scratch_);
  const std::vector<double>& expected = expected_.at(i);
  for (std::size_t row = 0; row < n_; ++row) {
    if (scratch_[row] == expected[row]) continue;  // a NaN is never equal
    return Error{
        Code::kCorrupt,
        format("matrix product: row %zu of C r is %.17g, A (B r) is %.17g (OpenBLAS kernels: %s)",
               row, scratch_[row], expected[row], core_name().c_str())};
  }
  return ok();
}

std::string Gemm::core_name() { return openblas_get_corename(); }

}  // namespace mixproof
