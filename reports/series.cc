#include "reports/series.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace mixproof {
namespace {

constexpr double kRowsPerDecade = 30;
constexpr double kLeastTtftS = 1e-6;
constexpr int kMostColumns = 1600, kLeastColumns = 8;

using Cell = std::tuple<int, int, bool>;  // column, row, good

std::vector<RequestPoint> on_grid(const std::vector<RequestPoint>& points, int columns,
                                  double begin_s, double span_s) {
  std::map<Cell, RequestPoint> cells;
  for (const RequestPoint& point : points) {
    const int column = span_s > 0 ? static_cast<int>((point.at_s - begin_s) / span_s * columns) : 0;
    const int row = std::isfinite(point.ttft_s)
                        ? static_cast<int>(std::floor(
                              std::log10(std::max(point.ttft_s, kLeastTtftS)) * kRowsPerDecade))
                        : 1'000'000;
    const auto [cell, is_new] = cells.try_emplace({column, row, point.good}, point);
    if (!is_new) cell->second.stands_for += point.stands_for;
  }
  std::vector<RequestPoint> out;
  for (const auto& [cell, point] : cells) out.push_back(point);
  return out;
}

}  // namespace

std::vector<RequestPoint> thinned(const std::vector<RequestPoint>& points, std::size_t most) {
  if (points.size() <= most) return points;
  const auto by_time = [](const RequestPoint& a, const RequestPoint& b) { return a.at_s < b.at_s; };
  const auto [first, last] = std::minmax_element(points.begin(), points.end(), by_time);
  std::vector<RequestPoint> out;
  for (int columns = kMostColumns; columns >= kLeastColumns; columns = columns * 2 / 3) {
    out = on_grid(points, columns, first->at_s, last->at_s - first->at_s);
    if (out.size() <= most) return out;
  }
  out.resize(std::min(out.size(), most));
  return out;
}

}  // namespace mixproof
