// The latency sources: a telemetry file, a Prometheus endpoint and a Unix socket that the service sends to.
#pragma once

#include <memory>
#include <optional>

#include "client/parallel_get.h"
#include "domain/histogram.h"
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

// All metrics endpoints of the node, asked side by side once an interval.
class MetricsScrape {
 public:
  // `timeout_s` is wall time, of all together: endpoints must not delay the decision.
  explicit MetricsScrape(double timeout_s);
  // `of_pod`: a pod named the address; what it answers takes nothing from the others.
  std::size_t add(const std::string& url, bool of_pod = false);
  void remove(std::size_t place) { gets_.remove(place); }
  // The first call of an interval asks all of them.
  Result<HttpAnswer> answer(std::size_t place, const Interval& interval);

 private:
  ParallelGet gets_;
  std::uint64_t interval_ = 0;
};

class PrometheusLatency : public LatencySensor {
 public:
  PrometheusLatency(PrometheusSource source, std::shared_ptr<MetricsScrape> scrape);
  ~PrometheusLatency() override { scrape_->remove(place_); }
  PrometheusLatency(const PrometheusLatency&) = delete;
  PrometheusLatency& operator=(const PrometheusLatency&) = delete;
  PrometheusLatency(PrometheusLatency&&) = delete;
  PrometheusLatency& operator=(PrometheusLatency&&) = delete;
  // Of what the histogram gained since the last interval; an interval without requests has no latency.
  Result<Latency> read(const Interval& interval) override;

 private:
  Result<Histogram> fetch(const Interval& interval);

  PrometheusSource source_;
  std::shared_ptr<MetricsScrape> scrape_;
  std::size_t place_;
  std::optional<Histogram> last_;
};

}  // namespace osml
