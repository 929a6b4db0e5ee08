#include "probes/backends/cpu/gradient.h"

#include <array>
#include <vector>

#include "harness/base/random.h"
#include "harness/base/text.h"

namespace mixproof {
namespace {

constexpr std::size_t kValuesPerDraw = 4;  // 16 bits of a draw each, of which 12 are used

std::uint64_t stream_seed(const GradientKey& key, int rank) {
  Random random(key.seed, "gradient");
  Random of_step(random.next() ^ static_cast<std::uint64_t>(key.step));
  return Random(of_step.next() ^ static_cast<std::uint64_t>(rank)).next();
}

// SplitMix64 is counter-based: the n-th draw is reached directly, so single elements can be
// checked.
std::uint64_t draw(std::uint64_t seed, std::uint64_t n) {
  return Random(seed + n * 0x9e3779b97f4a7c15ULL).next();
}

float value_in(std::uint64_t bits, std::size_t lane) {
  return static_cast<float>(static_cast<int>((bits >> (16 * lane)) & 0xfffU) - 2048);
}

Status compare(const GradientKey& key, int ranks, std::size_t index, float value, float expected) {
  if (value == expected) return ok();  // a NaN is never equal
  return Error{Code::kCorrupt,
               format("all-reduce: element %zu of step %lld is %.9g, the sum over %d ranks is %.9g",
                      index, static_cast<long long>(key.step), static_cast<double>(value), ranks,
                      static_cast<double>(expected))};
}

Status verify_element(const GradientKey& key, int ranks, std::span<const float> sum,
                      std::size_t index) {
  float expected = 0;
  for (int rank = 0; rank < ranks; ++rank) expected += gradient_value(key, rank, index);
  return compare(key, ranks, index, sum[index], expected);
}

}  // namespace

float gradient_value(const GradientKey& key, int rank, std::size_t index) {
  return value_in(draw(stream_seed(key, rank), index / kValuesPerDraw), index % kValuesPerDraw);
}

void fill_gradient(const GradientKey& key, int rank, std::span<float> gradient) {
  Random random(stream_seed(key, rank));
  for (std::size_t base = 0; base < gradient.size(); base += kValuesPerDraw) {
    const std::uint64_t bits = random.next();
    for (std::size_t lane = 0; lane < kValuesPerDraw && base + lane < gradient.size(); ++lane)
      gradient[base + lane] = value_in(bits, lane);
  }
}

Status verify_whole_sum(const GradientKey& key, int ranks, std::span<const float> sum) {
  std::vector<std::uint64_t> seeds;
  for (int rank = 0; rank < ranks; ++rank) seeds.push_back(stream_seed(key, rank));
  for (std::size_t base = 0; base < sum.size(); base += kValuesPerDraw) {
    std::array<float, kValuesPerDraw> expected{};
    for (const std::uint64_t seed : seeds) {
      const std::uint64_t bits = draw(seed, base / kValuesPerDraw);
      for (std::size_t lane = 0; lane < kValuesPerDraw; ++lane)
        expected[lane] += value_in(bits, lane);
    }
    for (std::size_t lane = 0; lane < kValuesPerDraw && base + lane < sum.size(); ++lane)
      TRY(compare(key, ranks, base + lane, sum[base + lane], expected[lane]));
  }
  return ok();
}

Status verify_sampled_sum(const GradientKey& key, int ranks, std::span<const float> sum,
                          int samples) {
  if (sum.empty()) return ok();
  TRY(verify_element(key, ranks, sum, 0));
  TRY(verify_element(key, ranks, sum, sum.size() - 1));
  Random random(key.seed ^ static_cast<std::uint64_t>(key.step), "gradient samples");
  for (int i = 0; i < samples; ++i)
    TRY(verify_element(key, ranks, sum, static_cast<std::size_t>(random.below(sum.size()))));
  return ok();
}

}  // namespace mixproof
