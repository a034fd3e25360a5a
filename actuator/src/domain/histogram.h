// Cumulative histograms as Prometheus exposes them, and percentiles of what came between two of them.
#pragma once

#include <optional>
#include <vector>

#include "domain/types.h"

namespace osml {

struct Bucket {
  double upper;  // the le label; +inf for the last
  double count;  // observations <= upper since the process started
};

struct Histogram {
  std::vector<Bucket> buckets;  // ascending
  std::optional<double> sum;
  std::optional<double> count;
  bool exponential = false;  // between two bounds, observations lie evenly on a logarithmic scale, not a linear one
};

bool same_bounds(const Histogram& one, const Histogram& other);

// What was observed between two readings. None where a counter went backwards (the service restarted) or a bound has
// gone: then the newer reading is the next base. Growth that is less at a higher bound (a service that was read while
// it wrote) is raised, as Prometheus does.
// - A bound that is new had nothing between it and the bound below: some clients make a bucket with its first
//   observation.
// - A sum that went backwards alone is missing: an observation was below 0, as by a clock that was set back.
std::optional<Histogram> difference(const Histogram& newer, const Histogram& older);

// Value at quantile q in (0, 1) by interpolation within the bucket, from 0 in the first. That is linear, or geometric
// in an exponential histogram, as Prometheus does. Observations beyond the last finite bound are given that bound, as
// Prometheus does; it is a lower bound then. None without observations, and where they are beyond a histogram that has
// no finite bound above 0.
std::optional<double> quantile(const Histogram& histogram, double q);

// Percentiles, mean and samples of what a histogram gained; `unit_ms` milliseconds are one unit of its bounds. The mean
// is missing without sum and count, and so is each value that is not finite or below 0. None where nothing was gained.
std::optional<Latency> latency_of(const Histogram& gained, double unit_ms);

}  // namespace osml
