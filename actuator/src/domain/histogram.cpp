#include "domain/histogram.h"

#include <cmath>

namespace osml {

namespace {

bool grown(const std::optional<double>& newer, const std::optional<double>& older, std::optional<double>& by) {
  if (!newer || !older) return true;
  if (*newer < *older) return false;
  by = *newer - *older;
  return true;
}

}  // namespace

std::optional<Histogram> difference(const Histogram& newer, const Histogram& older) {
  if (newer.buckets.size() != older.buckets.size()) return std::nullopt;
  Histogram between;
  between.buckets.reserve(newer.buckets.size());
  for (std::size_t i = 0; i < newer.buckets.size(); ++i) {
    const double count = newer.buckets[i].count - older.buckets[i].count;
    if (newer.buckets[i].upper != older.buckets[i].upper || count < 0) return std::nullopt;
    between.buckets.push_back({newer.buckets[i].upper, count});
  }
  if (!grown(newer.sum, older.sum, between.sum)) return std::nullopt;
  if (!grown(newer.count, older.count, between.count)) return std::nullopt;
  return between;
}

std::optional<double> quantile(const Histogram& histogram, double q) {
  if (histogram.buckets.empty() || histogram.buckets.back().count <= 0) return std::nullopt;
  const double rank = q * histogram.buckets.back().count;
  double lower = 0;
  double below = 0;
  for (const Bucket& bucket : histogram.buckets) {
    if (bucket.count >= rank && bucket.count > below) {
      if (std::isinf(bucket.upper)) return lower;
      // a first bucket with a bound <= 0 has no width that we know
      if (bucket.upper <= lower) return bucket.upper;
      return lower + (bucket.upper - lower) * (rank - below) / (bucket.count - below);
    }
    below = bucket.count;
    lower = bucket.upper;
  }
  return lower;
}

std::optional<Latency> latency_of(const Histogram& gained, double unit_ms) {
  const double count = gained.buckets.empty() ? 0 : gained.buckets.back().count;
  if (count <= 0) return std::nullopt;
  const auto at = [&gained, unit_ms](double q) -> std::optional<double> {
    const auto value = quantile(gained, q);
    return value ? std::optional<double>(*value * unit_ms) : std::nullopt;
  };
  Latency latency;
  latency.p50_ms = at(0.50);
  latency.p95_ms = at(0.95);
  latency.p99_ms = at(0.99);
  if (gained.sum && gained.count && *gained.count > 0) latency.mean_ms = *gained.sum / *gained.count * unit_ms;
  latency.samples = static_cast<std::uint64_t>(std::llround(count));
  return latency;
}

}  // namespace osml
