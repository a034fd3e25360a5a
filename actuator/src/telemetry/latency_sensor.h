// Where a service's latencies come from.
#pragma once

#include <memory>

#include "base/result.h"
#include "config/config.h"
#include "domain/interval.h"
#include "domain/types.h"

namespace osml {

class LatencySensor {
 public:
  LatencySensor() = default;
  LatencySensor(const LatencySensor&) = delete;
  LatencySensor& operator=(const LatencySensor&) = delete;
  virtual ~LatencySensor() = default;

  // Latencies of this interval. The error is the sentence for Observation.missing: why there is none.
  virtual Result<Latency> read(const Interval& interval) = 0;
  // The service is not there in this interval: what came of it, and totals before it, are not those of its return.
  virtual void forget(const Interval& interval) = 0;
};

}  // namespace osml
