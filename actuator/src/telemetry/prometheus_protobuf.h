// The protobuf format of Prometheus, as far as one histogram needs it: MetricFamily after MetricFamily, each with its
// length before it. Whatever the bytes say, memory is bounded by some multiple of their length.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "telemetry/histogram_series.h"

namespace osml {

// As an object a series takes thirty times as much.
constexpr std::size_t longest_series = std::size_t{64} << 10U;
// So many buckets all native series have together, for each series that is allowed.
constexpr std::size_t most_native_buckets = 64;

// The series of the histogram `metric` that carry every label of `labels`. One with native and classic buckets counts
// with the native ones. Error: the body is broken, has no such histogram, one that cannot be used, or too much of it.
Result<HistogramReading> parse_families(std::string_view body, const std::string& metric,
                                        const std::map<std::string, std::string>& labels,
                                        std::size_t most_series = most_series_of_service);

}  // namespace osml
