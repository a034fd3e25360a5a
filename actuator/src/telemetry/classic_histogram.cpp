#include "telemetry/classic_histogram.h"

#include <algorithm>
#include <cmath>

namespace osml {

std::optional<double> if_measured(double value) {
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

// Written so that NaN fails.
bool is_usable(const Bucket& bucket) {
  constexpr double most_bound = 1e18;
  constexpr double most_count = 1e15;
  return bucket.upper >= 0 && (bucket.upper <= most_bound || std::isinf(bucket.upper)) && bucket.count >= 0 &&
         bucket.count <= most_count;
}

Error unusable_bucket(const std::string& metric, std::string_view shown) {
  return {ErrorKind::Io, "a bucket of '" + metric + "' is '" + std::string(shown) +
                             "', expected le from 0 to 1e18 or +Inf, and a count from 0 to 1e15; correct the metrics "
                             "of the service"};
}

Status make_usable(Histogram& series, const std::string& metric) {
  auto& buckets = series.buckets;
  std::sort(buckets.begin(), buckets.end(),
            [](const Bucket& one, const Bucket& other) { return one.upper < other.upper; });
  const auto twice = std::adjacent_find(buckets.begin(), buckets.end(), [](const Bucket& lower, const Bucket& upper) {
    return !(lower.upper < upper.upper);
  });
  if (twice != buckets.end()) {
    return Error{ErrorKind::Io, "the histogram '" + metric +
                                    "' has a bound twice in one series, expected each bound once; correct the metrics "
                                    "of the service"};
  }
  // A service that was read while it wrote has counts that fall: they are raised, as Prometheus does.
  double below = 0;
  for (Bucket& bucket : buckets) bucket.count = below = std::max(below, bucket.count);
  const bool bounded = std::any_of(buckets.begin(), buckets.end(), [](const Bucket& bucket) {
    return bucket.upper > 0 && std::isfinite(bucket.upper);
  });
  if (bounded) return done();
  return Error{ErrorKind::Io, "the histogram '" + metric +
                                  "' has no finite bucket; give the histogram classic buckets, or native ones and "
                                  "protobuf"};
}

}  // namespace osml
