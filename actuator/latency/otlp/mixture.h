// What several series gained in one interval, together: pods of a service, its routes, its status codes.
#pragma once

#include <vector>

#include "domain/histogram.h"
#include "otlp/exponential.h"

namespace osml::latency::otlp {

// One histogram of the observations of several, whatever their bounds: in each of them observations lie evenly between
// two bounds, and those beyond its last finite bound have that bound, as quantile() has it. So a percentile of the
// result is that of all observations under that rule. Its sum and count are those of all, missing where one lacks it.
Histogram mix(const std::vector<Histogram>& parts);

class Mixture {
 public:
  // Different sets of bounds, and units of exponential histograms, in one interval.
  static constexpr std::size_t most_shapes = 16;

  // Bounds in milliseconds. False where it has a shape that is one too many: it is not added.
  bool add(const Histogram& gained);
  bool add(const Exponential& gained);
  // Of all that was added: all but the rate and the age. None where nothing was observed. Then empty.
  std::optional<Latency> take();

 private:
  std::vector<Histogram> plain_;
  std::vector<Exponential> exponential_;
};

}  // namespace osml::latency::otlp
