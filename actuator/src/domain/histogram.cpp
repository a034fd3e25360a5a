#include "domain/histogram.h"

#include <algorithm>
#include <cmath>

namespace osml {

namespace {

std::optional<double> growth(const std::optional<double>& newer, const std::optional<double>& older) {
  return newer && older ? std::optional(*newer - *older) : std::nullopt;
}

std::optional<double> as_latency(const std::optional<double>& value) {
  return value && std::isfinite(*value) && *value >= 0 ? value : std::nullopt;
}

}  // namespace

bool same_bounds(const Histogram& one, const Histogram& other) {
  return std::equal(one.buckets.begin(), one.buckets.end(), other.buckets.begin(), other.buckets.end(),
                    [](const Bucket& left, const Bucket& right) { return left.upper == right.upper; });
}

std::optional<Histogram> difference(const Histogram& newer, const Histogram& older) {
  Histogram between{{}, growth(newer.sum, older.sum), growth(newer.count, older.count)};
  if (between.sum.value_or(0) < 0) between.sum.reset();
  if (between.count.value_or(0) < 0) return std::nullopt;
  between.buckets.reserve(newer.buckets.size());
  auto next = older.buckets.begin();
  double before = 0;  // what the older reading counts up to the bound
  double below = 0;
  for (const Bucket& bucket : newer.buckets) {
    if (next != older.buckets.end() && next->upper == bucket.upper) before = (next++)->count;
    if (bucket.count < before) return std::nullopt;
    below = std::max(below, bucket.count - before);
    between.buckets.push_back({bucket.upper, below});
  }
  return next == older.buckets.end() ? std::optional(std::move(between)) : std::nullopt;
}

std::optional<double> quantile(const Histogram& histogram, double q) {
  if (histogram.buckets.empty() || histogram.buckets.back().count <= 0) return std::nullopt;
  const double rank = q * histogram.buckets.back().count;
  double lower = 0;
  double below = 0;
  for (const Bucket& bucket : histogram.buckets) {
    if (bucket.count >= rank && bucket.count > below) {
      if (std::isinf(bucket.upper)) return lower > 0 ? std::optional(lower) : std::nullopt;
      // a first bucket with a bound <= 0 has no width that we know
      if (bucket.upper <= lower) return bucket.upper;
      // there is no logarithm of 0
      if (histogram.exponential && lower > 0) {
        return lower * std::pow(bucket.upper / lower, (rank - below) / (bucket.count - below));
      }
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
    return value ? as_latency(*value * unit_ms) : std::nullopt;
  };
  Latency latency;
  latency.p50_ms = at(0.50);
  latency.p95_ms = at(0.95);
  latency.p99_ms = at(0.99);
  if (gained.sum && gained.count && *gained.count > 0) {
    latency.mean_ms = as_latency(*gained.sum / *gained.count * unit_ms);
  }
  latency.samples = static_cast<std::uint64_t>(std::llround(count));
  return latency;
}

}  // namespace osml
