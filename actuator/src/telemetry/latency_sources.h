// The latency sources: a telemetry file, a Prometheus endpoint and a Unix socket that the service sends to.
#pragma once

#include <optional>

#include "client/http.h"
#include "telemetry/histogram.h"
#include "telemetry/latency_sensor.h"
#include "telemetry/telemetry_file.h"
#include "telemetry/telemetry_socket.h"

namespace osml {

class FileLatency : public LatencySensor {
 public:
  explicit FileLatency(std::shared_ptr<TelemetryFile> file) : file_(std::move(file)) {}
  Result<Latency> read(const Interval& interval) override;

 private:
  std::shared_ptr<TelemetryFile> file_;  // the same file may hold counters too
};

class DatagramLatency : public LatencySensor {
 public:
  // `socket` may be the reason why there is none.
  DatagramLatency(Result<std::shared_ptr<TelemetrySocket>> socket, double max_age_s)
      : socket_(std::move(socket)), max_age_s_(max_age_s) {}
  // Of what came since the last interval; where nothing did, the newest, until it is too old.
  Result<Latency> read(const Interval& interval) override;

 private:
  Result<std::shared_ptr<TelemetrySocket>> socket_;
  double max_age_s_;
  std::optional<Latency> last_;
  double last_s_ = 0;        // node time at which it was read
  bool complained_ = false;  // about datagrams that make no sense, until there are none
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
