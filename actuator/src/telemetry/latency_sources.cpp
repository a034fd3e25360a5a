#include "telemetry/latency_sources.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "base/number.h"
#include "telemetry/exposition.h"

namespace osml {

namespace {

// Exporters of large processes run to several hundred KiB.
constexpr std::size_t longest_exposition = std::size_t{8} << 20U;
// 64 of them fit into the memory limit of the DaemonSet.
constexpr std::size_t longest_of_pod = std::size_t{256} << 10U;
// Of those that merge their histograms now and then; Envoy's default is 5 s.
constexpr double longest_flush_s = 5;
// One lost answer is always bridged, however long the interval is.
constexpr double longest_gap_s = 5;

}  // namespace

Result<Latency> FileLatency::read(const Interval& interval) {
  const Result<TelemetryReading> reading = file_->read_since(interval, known_);
  if (!reading) return reading.error();
  Latency latency = reading->sample.latency;
  latency.age_s = reading->age_s;
  return latency;
}

void FileLatency::forget(const Interval& interval) {
  (void)file_->read(interval);
  known_ = file_->news();
}

Result<std::shared_ptr<TelemetrySocket>> DatagramLatency::open() {
  if (sockets_ != nullptr) return sockets_->get(path_, mode_);
  return Error{ErrorKind::Busy, "datagram " + path_.string() + " is read only by osml-agent run", 0};
}

Result<Latency> DatagramLatency::read(const Interval& interval) {
  if (!socket_ || !(*socket_)->in_place()) socket_ = open();
  if (!socket_) return socket_.error();
  TelemetrySocket& socket = **socket_;
  const std::string name = "datagram " + socket.path().string();
  const TelemetrySocket::Arrived arrived = socket.take();
  if (arrived.ignored > 0 && !complained_) {
    spdlog::warn(
        "{}: {} datagrams ignored, expected one JSON object of at most {} bytes in each; this warning is not repeated",
        name, arrived.ignored, TelemetrySocket::longest_datagram);
  }
  complained_ = complained_ || arrived.ignored > 0;
  if (!arrived.lines.empty()) {
    last_ = combine(arrived.lines).latency;
    last_s_ = interval.time_s - arrived.age_s * time_scale_;
  } else if (arrived.ignored > 0) {
    return Error{ErrorKind::Io, name + ": the service sent no JSON object of at most " +
                                    std::to_string(TelemetrySocket::longest_datagram) + " bytes"};
  }
  if (!last_)
    return Error{ErrorKind::Busy,
                 name + ": no datagram has arrived yet; check that the service runs and sends to this socket"};
  const double age_s = std::max(0.0, interval.time_s - last_s_);
  if (age_s > max_age_s_) {
    return Error{ErrorKind::Busy, name + ": no datagram arrived for " + format_number(std::round(age_s * 10) / 10) +
                                      " s, expected at most " + format_number(max_age_s_) +
                                      " s; check that the service runs and sends to this socket"};
  }
  Latency latency = *last_;
  latency.age_s = age_s;
  return latency;
}

void DatagramLatency::forget(const Interval& /*interval*/) {
  if (socket_) (void)(*socket_)->take();
  last_.reset();
}

MetricsScrape::MetricsScrape(double timeout_s, WhileWaiting meanwhile)
    : gets_({.timeout_s = timeout_s, .max_bytes = longest_exposition, .meanwhile = std::move(meanwhile)},
            accepted_expositions) {}

std::size_t MetricsScrape::add(const std::string& url, bool of_pod) {
  const std::pair<std::string, bool> of(url, of_pod);
  auto found =
      std::find_if(endpoints_.begin(), endpoints_.end(), [&of](const auto& one) { return one.second.of == of; });
  if (found == endpoints_.end()) {
    found = endpoints_.emplace(gets_.add(url, of_pod ? longest_of_pod : 0), Endpoint{of, 0, 0, {}}).first;
  }
  ++found->second.users;
  return found->first;
}

void MetricsScrape::remove(std::size_t place) {
  if (--endpoints_.at(place).users > 0) return;
  endpoints_.erase(place);
  gets_.remove(place);
}

Result<std::shared_ptr<const HttpAnswer>> MetricsScrape::answer(std::size_t place, const Interval& interval) {
  if (interval.number != interval_) {
    gets_.run();
    for (auto& [number, one] : endpoints_) {
      one.asked = 0;
      one.answer.reset();
    }
  }
  interval_ = interval.number;
  Endpoint& asked = endpoints_.at(place);
  if (!asked.answer) {
    auto got = gets_.take(place);
    asked.answer = got ? Shared(std::make_shared<const HttpAnswer>(std::move(*got))) : Shared(got.error());
  }
  if (++asked.asked < asked.users) return *asked.answer;
  Shared last = std::move(*asked.answer);
  asked.answer.reset();
  return last;
}

PrometheusLatency::PrometheusLatency(PrometheusSource source, std::shared_ptr<MetricsScrape> scrape)
    : source_(std::move(source)), scrape_(std::move(scrape)), place_(scrape_->add(source_.url, source_.of_pod)) {}

Result<HistogramReading> PrometheusLatency::fetch(const Interval& interval) {
  const auto response = scrape_->answer(place_, interval);
  if (!response) return response.error();
  const HttpAnswer& answer = **response;
  if (answer.status != 200) {
    return Error{ErrorKind::Io, source_.url + " answered HTTP " + std::to_string(answer.status) + ", expected 200"};
  }
  if (answer.content_type.find("html") != std::string::npos) {
    return Error{ErrorKind::Io, source_.url + " answered " + describe(answer) + ", expected Prometheus text"};
  }
  auto reading = read_exposition(answer, source_);
  if (!reading) return reading.error().wrap(source_.url);
  return reading;
}

void PrometheusLatency::forget(const Interval& /*interval*/) {
  last_.reset();
  known_.clear();
  quiet_s_ = 0;
  gap_s_ = 0;
}

Result<Latency> PrometheusLatency::read(const Interval& interval) {
  auto now = fetch(interval);
  if (!now) {
    gap_s_ += interval.length_s;
    // what is gained over a long gap is not this interval's
    if (gap_s_ > std::max(longest_gap_s, interval.length_s)) forget(interval);
    return now.error();
  }
  const std::optional<HistogramReading> before = std::exchange(last_, std::move(*now));
  const double length_s = interval.length_s + std::exchange(gap_s_, 0);
  if (!before) return Error{ErrorKind::Busy, source_.url + ": this is the first reading; a latency needs two readings"};
  note_series(known_, *before, source_.of_pod ? most_series_of_pod : most_series_of_service);
  const auto gained = gained_between(*last_, *before, known_);
  if (!gained) return gained.error().wrap(source_.url);
  auto latency = latency_of(*gained, source_.unit_ms);
  if (!latency) {
    quiet_s_ = std::min(quiet_s_ + length_s, longest_flush_s);
    return Error{ErrorKind::Busy, source_.url + ": no request in this interval"};
  }
  latency->requests_per_s = gained->buckets.back().count / (length_s + std::exchange(quiet_s_, 0));
  latency->age_s = 0;
  return *latency;
}

}  // namespace osml
