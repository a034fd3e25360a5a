#include "domain/exponential.h"

#include <algorithm>
#include <cmath>

namespace osml {

namespace {

std::int64_t end_of(const Exponential& histogram) {
  return histogram.offset + static_cast<std::int64_t>(histogram.counts.size());
}

double lower_bound_of(std::int64_t index, int scale) {
  return std::exp2(std::ldexp(static_cast<double>(index), -scale));
}

// So that the buckets reach from `first` to before `end`; never fewer than there are.
void widen(Exponential& histogram, std::int64_t first, std::int64_t end) {
  if (histogram.counts.empty()) histogram.offset = first;
  const std::int64_t before = std::max<std::int64_t>(0, histogram.offset - first);
  histogram.counts.insert(histogram.counts.begin(), static_cast<std::size_t>(before), 0.0);
  histogram.offset -= before;
  const std::int64_t after = std::max<std::int64_t>(0, end - end_of(histogram));
  histogram.counts.insert(histogram.counts.end(), static_cast<std::size_t>(after), 0.0);
}

}  // namespace

void lower_scale(Exponential& histogram, int scale) {
  if (scale >= histogram.scale) return;
  // 64 bits of an index are used up long before.
  const int by = std::min(histogram.scale - scale, 62);
  histogram.scale = scale;
  if (histogram.counts.empty()) return;
  const std::int64_t first = histogram.offset >> by;
  const std::int64_t last = (end_of(histogram) - 1) >> by;
  std::vector<double> joined(static_cast<std::size_t>(last - first + 1), 0.0);
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const std::int64_t index = (histogram.offset + static_cast<std::int64_t>(i)) >> by;
    joined[static_cast<std::size_t>(index - first)] += histogram.counts[i];
  }
  histogram.counts = std::move(joined);
  histogram.offset = first;
}

void widen_zero(Exponential& histogram, double threshold) {
  double& end = histogram.zero_threshold;
  end = std::max(end, threshold);
  std::size_t inside = 0;
  for (; inside < histogram.counts.size(); ++inside) {
    const std::int64_t index = histogram.offset + static_cast<std::int64_t>(inside);
    if (lower_bound_of(index, histogram.scale) >= end) break;
    if (histogram.counts[inside] == 0) continue;
    histogram.zero_count += histogram.counts[inside];
    end = std::max(end, lower_bound_of(index + 1, histogram.scale));
  }
  histogram.counts.erase(histogram.counts.begin(), histogram.counts.begin() + static_cast<std::ptrdiff_t>(inside));
  histogram.offset += static_cast<std::int64_t>(inside);
}

std::optional<Exponential> difference(Exponential newer, Exponential older) {
  if (newer.unit_ms != older.unit_ms || newer.zero_threshold != older.zero_threshold) return std::nullopt;
  const int scale = std::min(newer.scale, older.scale);
  lower_scale(newer, scale);
  lower_scale(older, scale);
  for (std::size_t i = 0; i < older.counts.size(); ++i) {
    if (older.counts[i] == 0) continue;
    const std::int64_t place = older.offset + static_cast<std::int64_t>(i) - newer.offset;
    if (place < 0 || place >= static_cast<std::int64_t>(newer.counts.size())) return std::nullopt;
    double& count = newer.counts[static_cast<std::size_t>(place)];
    count -= older.counts[i];
    if (count < 0) return std::nullopt;
  }
  newer.zero_count -= older.zero_count;
  newer.count -= older.count;
  if (newer.zero_count < 0 || newer.count < 0) return std::nullopt;
  if (!newer.sum || !older.sum) {
    newer.sum.reset();
    return newer;
  }
  *newer.sum -= *older.sum;
  if (*newer.sum < 0) newer.sum.reset();
  return newer;
}

void add(Exponential& into, Exponential from) {
  int scale = std::min(into.scale, from.scale);
  lower_scale(into, scale);
  lower_scale(from, scale);
  if (!from.counts.empty()) {
    const auto range = [&] {
      const bool alone = into.counts.empty();
      return std::pair(alone ? from.offset : std::min(into.offset, from.offset),
                       alone ? end_of(from) : std::max(end_of(into), end_of(from)));
    };
    while (range().second - range().first > Exponential::most_buckets) {
      lower_scale(into, --scale);
      lower_scale(from, scale);
    }
    const auto [first, end] = range();
    widen(into, first, end);
    for (std::size_t i = 0; i < from.counts.size(); ++i) {
      const std::int64_t place = from.offset + static_cast<std::int64_t>(i) - into.offset;
      into.counts[static_cast<std::size_t>(place)] += from.counts[i];
    }
  }
  into.zero_count += from.zero_count;
  into.zero_threshold = std::max(into.zero_threshold, from.zero_threshold);
  into.count += from.count;
  into.sum = into.sum && from.sum ? std::optional(*into.sum + *from.sum) : std::nullopt;
}

Histogram as_histogram(const Exponential& histogram) {
  Histogram made;
  double below = histogram.zero_count;
  double bound = histogram.zero_threshold;
  if (below > 0) made.buckets.push_back({bound * histogram.unit_ms, below});
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    if (histogram.counts[i] == 0) continue;
    const std::int64_t index = histogram.offset + static_cast<std::int64_t>(i);
    // A bucket begins at its own bound, not where the last one with observations ended.
    const double lower = lower_bound_of(index, histogram.scale);
    if (lower > bound) made.buckets.push_back({lower * histogram.unit_ms, below});
    bound = std::max({bound, lower, lower_bound_of(index + 1, histogram.scale)});
    below += histogram.counts[i];
    made.buckets.push_back({bound * histogram.unit_ms, below});
  }
  if (histogram.sum) made.sum = *histogram.sum * histogram.unit_ms;
  made.count = histogram.count;
  return made;
}

}  // namespace osml
