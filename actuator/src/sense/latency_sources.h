// The two latency sources: a telemetry file and a Prometheus endpoint.
#pragma once

#include <optional>

#include "client/http.h"
#include "sense/histogram.h"
#include "sense/latency_sensor.h"
#include "sense/telemetry_file.h"

namespace osml {

class FileLatency : public LatencySensor {
 public:
  explicit FileLatency(std::shared_ptr<TelemetryFile> file) : file_(std::move(file)) {}
  Result<Latency> read(const Interval& interval) override;

 private:
  std::shared_ptr<TelemetryFile> file_;  // the same file may hold counters too
};

class PrometheusLatency : public LatencySensor {
 public:
  // `timeout_s` is wall time: the endpoint must not delay the decision.
  PrometheusLatency(PrometheusSource source, double timeout_s);
  // Of what the histogram gained since the last interval; an interval without requests has no latency.
  Result<Latency> read(const Interval& interval) override;

 private:
  Result<Histogram> fetch();

  PrometheusSource source_;
  HttpConnection http_;
  std::optional<Histogram> last_;
};

}  // namespace osml
