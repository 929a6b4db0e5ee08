#include "probes/backends/cpu/gemm.h"

#include <cblas.h>
#include <dlfcn.h>

#include <algorithm>

#include "harness/base/random.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

// OpenBLAS starts its threads when it is loaded, and a signal that a process waits for in an
// orderly way (a guard's SIGTERM, a run's Ctrl-C) would end it through such a thread. So nothing is
// linked against it: it is opened by those who compute.
struct Blas {
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&openblas_set_num_threads) set_num_threads = nullptr;
  decltype(&openblas_get_corename) get_corename = nullptr;
  std::string trouble;  // why it cannot be used; else empty
};

Blas open_blas() {
  Blas blas;
  void* library = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) {
    blas.sgemm = reinterpret_cast<decltype(blas.sgemm)>(::dlsym(library, "cblas_sgemm"));
    blas.set_num_threads = reinterpret_cast<decltype(blas.set_num_threads)>(
        ::dlsym(library, "openblas_set_num_threads"));
    blas.get_corename =
        reinterpret_cast<decltype(blas.get_corename)>(::dlsym(library, "openblas_get_corename"));
  }
  if (blas.sgemm == nullptr || blas.set_num_threads == nullptr || blas.get_corename == nullptr) {
    const char* why = ::dlerror();
    blas.trouble = std::string("OpenBLAS cannot be opened (Debian package libopenblas0): ") +
                   (why == nullptr ? "a function is missing" : why);
  }
  return blas;
}

const Blas& blas() {
  static const Blas kBlas = open_blas();
  return kBlas;
}

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
  if (!blas().trouble.empty()) return Error{Code::kUnavailable, blas().trouble};
  blas().set_num_threads(1);
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
  blas().sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0F, a_.data(), n, b_.data(), n,
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

std::string Gemm::core_name() { return blas().trouble.empty() ? blas().get_corename() : "unknown"; }

}  // namespace mixproof
