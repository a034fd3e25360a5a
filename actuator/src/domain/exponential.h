// Exponential histograms, of OpenTelemetry and Prometheus: bucket i holds values above base^i, up to base^(i+1), and
// base is 2^(2^-scale).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "domain/histogram.h"

namespace osml {

struct Exponential {
  // More are made fewer, by a lower scale: a merge of histograms far apart has a limit.
  static constexpr std::int64_t most_buckets = 1024;

  int scale = 0;
  std::int64_t offset = 0;     // index of the first of counts
  std::vector<double> counts;  // observations in each bucket
  double zero_count = 0;       // observations of at most zero_threshold
  double zero_threshold = 0;
  double unit_ms = 1;  // milliseconds in one unit of the values
  std::optional<double> sum;
  double count = 0;
};

// Neighbours become one bucket until the scale is this; a scale above the present one changes nothing.
void lower_scale(Exponential& histogram, int scale);
// Observations below this threshold are counted as zero. A bucket on both sides of it goes there as a whole, and the
// threshold to its end; a threshold below the present one moves nothing but such a bucket.
void widen_zero(Exponential& histogram, double threshold);
// What was observed between two readings, at the lower scale of both. None where a bucket went backwards (a reset), or
// the readings differ in what their values mean: then the newer reading is the next base. A sum that went backwards
// alone is missing.
std::optional<Exponential> difference(Exponential newer, Exponential older);
// Adds observations in the same unit. The sum is missing where one of them has none.
void add(Exponential& into, Exponential from);
// The same as cumulative buckets, with bounds in milliseconds where unit_ms says what they are now.
Histogram as_histogram(const Exponential& histogram);

}  // namespace osml
