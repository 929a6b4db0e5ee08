#include "reports/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>

#include "harness/base/check.h"

namespace mixproof {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr int kStartsPerBlock = 16;

std::size_t blocks_of(const Segment& segment, double block_s) {
  return static_cast<std::size_t>(std::floor(segment.length_s / block_s + 1e-9));
}

// Calls use(segment index, begin of the block) for every place where a block may begin.
template <typename Use>
void each_start(std::span<const Segment> segments, double block_s, Use use) {
  const double step_s = block_s / kStartsPerBlock;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (blocks_of(segments[i], block_s) == 0) continue;
    const double room_s = std::max(0.0, segments[i].length_s - block_s);
    const auto places = static_cast<std::size_t>(std::floor(room_s / step_s + 1e-9)) + 1;
    for (std::size_t k = 0; k < places; ++k) use(i, static_cast<double>(k) * step_s);
  }
}

// Index of the first sample at or after a time.
std::size_t first_from(const Segment& segment, double at_s) {
  const auto found =
      std::lower_bound(segment.samples.begin(), segment.samples.end(), at_s,
                       [](const TimedSample& sample, double time) { return sample.at_s < time; });
  return static_cast<std::size_t>(found - segment.samples.begin());
}

// What a block contributes to a quotient of sums.
struct Sums {
  double over = 0, under = 0;
};

std::vector<double> resampled_quotients(const std::vector<Sums>& blocks, int count, int draws,
                                        Random& random) {
  CHECK(!blocks.empty() && count > 1);
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(draws));
  for (int draw = 0; draw < draws; ++draw) {
    Sums total;
    for (int i = 1; i < count; ++i) {
      const Sums& block = blocks[random.below(blocks.size())];
      total.over += block.over;
      total.under += block.under;
    }
    out.push_back(total.under > 0 ? total.over / total.under : kNone);
  }
  return out;
}

// How many events, with their shares at the edges, lie in a block.
double events_in(const Segment& segment, double longest_s, double from_s, double until_s) {
  double sum = 0;
  for (std::size_t i = first_from(segment, from_s - longest_s); i < segment.samples.size(); ++i) {
    const TimedSample& event = segment.samples[i];
    if (event.at_s >= until_s) break;
    const double inside_s =
        std::min(until_s, event.at_s + event.value) - std::max(from_s, event.at_s);
    if (inside_s > 0) sum += inside_s / event.value;
  }
  return sum;
}

// The samples of all segments, in the order of segment and time, as ranks into their sorted values.
struct Ranked {
  std::vector<std::size_t> first;  // of each segment
  std::vector<std::uint32_t> ranks;
  std::vector<double> sorted;

  explicit Ranked(std::span<const Segment> segments) {
    std::vector<double> values;
    for (const Segment& segment : segments) {
      first.push_back(values.size());
      for (const TimedSample& sample : segment.samples) values.push_back(sample.value);
    }
    std::vector<std::uint32_t> order(values.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return values[a] < values[b]; });
    ranks.resize(values.size());
    for (std::size_t rank = 0; rank < order.size(); ++rank) {
      ranks[order[rank]] = static_cast<std::uint32_t>(rank);
      sorted.push_back(values[order[rank]]);
    }
  }
};

struct Range {
  std::size_t from = 0, until = 0;
};

// The quantile of samples that were drawn counts[rank] times.
double counted_quantile(const std::vector<std::uint32_t>& counts, const std::vector<double>& sorted,
                        std::size_t total, double p) {
  if (total == 0) return kNone;
  const double exact = p * static_cast<double>(total);
  const std::size_t wanted =
      std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(exact - 1e-9)), 1, total);
  std::size_t seen = 0, rank = 0;
  while ((seen += counts[rank]) < wanted) ++rank;
  return sorted[rank];
}

// The ends of what `draws` draws gave; those that gave nothing count against both.
Interval percentile_ends(std::vector<double> given, std::size_t draws, double least,
                         double confidence) {
  CHECK(draws > 0 && confidence > 0.5 && confidence < 1);
  std::sort(given.begin(), given.end());
  const std::size_t without = draws - given.size();
  // Of n draws, the k-th from below and the k-th from above.
  const auto k = static_cast<std::size_t>(
      std::max(1.0, std::ceil((1 - confidence) * static_cast<double>(draws) - 1e-9)));
  if (k <= without) return {least, std::numeric_limits<double>::infinity()};
  return {given[k - without - 1], given[given.size() - (k - without)]};
}

}  // namespace

int whole_blocks(std::span<const Segment> segments, double block_s) {
  CHECK(block_s > 0);
  std::size_t blocks = 0;
  for (const Segment& segment : segments) blocks += blocks_of(segment, block_s);
  return static_cast<int>(blocks);
}

std::vector<double> resampled_quantiles(std::span<const Segment> segments, double block_s, double p,
                                        int draws, Random random) {
  const int count = whole_blocks(segments, block_s);
  CHECK(count > 1 && p > 0 && p < 1);
  const Ranked samples(segments);
  std::vector<Range> blocks;
  each_start(segments, block_s, [&](std::size_t i, double begin_s) {
    blocks.push_back({samples.first[i] + first_from(segments[i], begin_s),
                      samples.first[i] + first_from(segments[i], begin_s + block_s)});
  });
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(draws));
  std::vector<std::uint32_t> counts;
  for (int draw = 0; draw < draws; ++draw) {
    counts.assign(samples.sorted.size(), 0);
    std::size_t total = 0;
    for (int i = 1; i < count; ++i) {
      const Range& block = blocks[random.below(blocks.size())];
      for (std::size_t s = block.from; s < block.until; ++s) ++counts[samples.ranks[s]];
      total += block.until - block.from;
    }
    out.push_back(counted_quantile(counts, samples.sorted, total, p));
  }
  return out;
}

std::vector<double> resampled_means(std::span<const Segment> segments, double block_s, int draws,
                                    Random random) {
  std::vector<Sums> blocks;
  each_start(segments, block_s, [&](std::size_t i, double begin_s) {
    Sums block;
    const std::size_t until = first_from(segments[i], begin_s + block_s);
    for (std::size_t s = first_from(segments[i], begin_s); s < until; ++s) {
      block.over += segments[i].samples[s].value;
      block.under += 1;
    }
    blocks.push_back(block);
  });
  return resampled_quotients(blocks, whole_blocks(segments, block_s), draws, random);
}

std::vector<double> resampled_rates(std::span<const Segment> segments, double block_s, int draws,
                                    Random random) {
  double longest_s = 0;
  for (const Segment& segment : segments)
    for (const TimedSample& event : segment.samples) longest_s = std::max(longest_s, event.value);
  std::vector<Sums> blocks;
  each_start(segments, block_s, [&](std::size_t i, double begin_s) {
    blocks.push_back({events_in(segments[i], longest_s, begin_s, begin_s + block_s), block_s});
  });
  return resampled_quotients(blocks, whole_blocks(segments, block_s), draws, random);
}

Interval ratio_interval(std::span<const double> figures, std::span<const double> references,
                        double confidence) {
  CHECK(figures.size() == references.size());
  std::vector<double> ratios;
  for (std::size_t i = 0; i < figures.size(); ++i)
    if (!std::isnan(figures[i]) && std::isfinite(references[i]) && references[i] > 0)
      ratios.push_back(figures[i] / references[i]);
  return percentile_ends(std::move(ratios), figures.size(), 0, confidence);
}

Interval difference_interval(std::span<const double> figures, std::span<const double> references,
                             double confidence) {
  CHECK(figures.size() == references.size());
  std::vector<double> differences;
  for (std::size_t i = 0; i < figures.size(); ++i)
    if (std::isfinite(figures[i]) && std::isfinite(references[i]))
      differences.push_back(figures[i] - references[i]);
  return percentile_ends(std::move(differences), figures.size(), -HUGE_VAL, confidence);
}

}  // namespace mixproof
