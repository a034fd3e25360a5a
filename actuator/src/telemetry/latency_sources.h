// The latency sources: a telemetry file, a Prometheus endpoint and a Unix socket that the service sends to.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/parallel_get.h"
#include "telemetry/histogram_series.h"
#include "telemetry/latency_sensor.h"
#include "telemetry/telemetry_file.h"
#include "telemetry/telemetry_socket.h"

namespace osml {

class FileLatency : public LatencySensor {
 public:
  explicit FileLatency(std::shared_ptr<TelemetryFile> file) : file_(std::move(file)) {}
  Result<Latency> read(const Interval& interval) override;
  void forget(const Interval& interval) override;

 private:
  std::shared_ptr<TelemetryFile> file_;  // the same file may hold counters too
  std::optional<std::uint64_t> known_;   // its news when the service was away last
};

class DatagramLatency : public LatencySensor {
 public:
  // Opens the socket. `sockets`, which outlives this, is null where nothing is listened to. `time_scale`: node time per
  // wall time.
  DatagramLatency(TelemetrySockets* sockets, fs::path path, unsigned mode, double max_age_s, double time_scale)
      : sockets_(sockets),
        path_(std::move(path)),
        mode_(mode),
        max_age_s_(max_age_s),
        time_scale_(time_scale),
        socket_(open()) {}
  // Of what came since the last interval; where nothing did, the newest, until it is too old. A socket that could not
  // be opened, or whose file was removed, is tried again.
  Result<Latency> read(const Interval& interval) override;
  void forget(const Interval& interval) override;

 private:
  Result<std::shared_ptr<TelemetrySocket>> open();

  TelemetrySockets* sockets_;
  fs::path path_;
  unsigned mode_;
  double max_age_s_;
  double time_scale_;
  Result<std::shared_ptr<TelemetrySocket>> socket_;  // or why there is none
  std::optional<Latency> last_;
  double last_s_ = 0;        // node time at which it came
  bool complained_ = false;  // about datagrams that make no sense
};

// All metrics endpoints of the node, asked side by side once an interval. Services at one address share its answer.
class MetricsScrape {
 public:
  // `timeout_s` is wall time, of all together: endpoints must not delay the decision.
  explicit MetricsScrape(double timeout_s, WhileWaiting meanwhile = {});
  // `of_pod`: a pod named the address; what it answers takes nothing from the others. The place is given back once for
  // each time that it was got.
  std::size_t add(const std::string& url, bool of_pod = false);
  void remove(std::size_t place);
  // The first call of an interval asks all of them. Each of those that share a place calls once.
  Result<std::shared_ptr<const HttpAnswer>> answer(std::size_t place, const Interval& interval);

 private:
  using Shared = Result<std::shared_ptr<const HttpAnswer>>;
  struct Endpoint {
    std::pair<std::string, bool> of;  // address, and whether a pod named it
    std::size_t users = 0;
    std::size_t asked = 0;         // of them, in this interval
    std::optional<Shared> answer;  // until all have it: it may be long
  };

  ParallelGet gets_;
  std::map<std::size_t, Endpoint> endpoints_;
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
  // Who merges its histograms now and then (Envoy does) gains in one interval what came in several: the rate is over
  // those. So it is after a short gap, when the endpoint did not answer.
  Result<Latency> read(const Interval& interval) override;
  void forget(const Interval& interval) override;

 private:
  Result<HistogramReading> fetch(const Interval& interval);

  PrometheusSource source_;
  std::shared_ptr<MetricsScrape> scrape_;
  std::size_t place_;
  std::optional<HistogramReading> last_;
  KnownSeries known_;   // up to the reading before
  double quiet_s_ = 0;  // nothing was gained for so long before this interval
  double gap_s_ = 0;    // nothing was answered for so long before it
};

}  // namespace osml
