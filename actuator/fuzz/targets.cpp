#include "targets.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/url.h"
#include "domain/forms.h"
#include "domain/histogram.h"
#include "domain/json.h"
#include "locate/annotations.h"
#include "locate/latency_target.h"
#include "locate/pod_list.h"
#include "resctrl/schemata.h"
#include "telemetry/prometheus_protobuf.h"
#include "telemetry/prometheus_text.h"
#include "telemetry/telemetry_line.h"

namespace osml::fuzz {

namespace {

std::string text_of(const Decision& decision) {
  return nlohmann::json(decision).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_measured(const std::optional<double>& value) { return !value || (std::isfinite(*value) && *value >= 0); }

void check_sample(const TelemetrySample& sample) {
  const Latency& latency = sample.latency;
  for (const auto& value : {latency.mean_ms, latency.p50_ms, latency.p95_ms, latency.p99_ms, latency.requests_per_s}) {
    promise(is_measured(value), "a latency is a finite number from 0 on, or missing");
  }
  const Counters& counters = sample.counters;
  for (const auto& value : {counters.cpu_usage_cores, counters.throttled_s, counters.instructions, counters.cycles,
                            counters.ipc, counters.llc_misses, counters.work_rate, counters.rss_mib}) {
    promise(is_measured(value), "a counter is a finite number from 0 on, or missing");
  }
}

DiscoverConfig rules() {
  DiscoverConfig discover;
  discover.namespaces = {"*"};
  discover.datagram_directory = "/run/osml";
  return discover;
}

// A service that is asked for a pod: what becomes a path or an address was chosen by nobody.
void check_asked(const Pod& pod, const Result<ServiceConfig>& service) {
  if (!service) {
    promise(!service.error().message.empty() && service.error().message.size() < 900, "a refusal is one sentence");
    return;
  }
  promise(is_name(service->spec.name) && service->spec.name.starts_with(pod.name_space + "."),
          "its namespace stands first");
  promise(service->spec.source && service->spec.source->size() <= 400, "the wire takes its source");
  if (!service->latency) return;
  const auto& socket = service->latency->datagram;
  promise(!socket || socket->parent_path() == "/run/osml", "a socket is in the operator's directory");
  const auto& prometheus = service->latency->prometheus;
  promise(!prometheus || host_of(prometheus->url).find(pod.ip) != std::string::npos, "an address is the pod's own");
}

void targets(std::string_view bytes) {
  const auto read = parse_targets(bytes, rules());
  if (!read) {
    promise(!read.error().message.empty(), "an error has words");
    return;
  }
  for (const auto& [name, why] : read->refused) promise(!why.empty() && why.size() < 900, "a refusal is one sentence");
  promise(read->next.find_first_of("&?# /\n") == std::string::npos, "a token can stand in an address");
  for (const LatencyTarget& target : read->targets) {
    promise(is_namespace(target.name_space) && is_name_in_dns(target.name), "a target has names");
    promise(!target.selector.empty(), "it does not select all");
    Pod pod;
    pod.name_space = target.name_space;
    pod.name = "web-0";
    pod.ip = "10.1.2.3";
    pod.containers = {{"app", "", 0}};
    check_asked(pod, service_of(pod, target, rules()));
    (void)selects(target.selector, {{"app", "web"}});
  }
}

void check_reading(const HistogramReading& reading) {
  const std::size_t series_read = reading.classic.size() + reading.native.size();
  promise(series_read > 0 && series_read <= most_series_of_service, "there are series, and not too many");
  for (const auto& [labels, series] : reading.classic) {
    promise(!series.buckets.empty(), "a histogram has buckets");
    for (std::size_t i = 0; i < series.buckets.size(); ++i) {
      const Bucket& bucket = series.buckets[i];
      promise(std::isfinite(bucket.count) && bucket.count >= 0, "a bucket counts from 0 on");
      promise(i == 0 || series.buckets[i - 1].upper < bucket.upper, "buckets ascend");
    }
    promise(is_measured(series.sum) && is_measured(series.count), "a sum is a number from 0 on, or missing");
  }
  if (const auto all = gained_between(reading, {})) {
    if (const auto latency = latency_of(*all, 1000.0)) check_sample({*latency, {}});
  }
  const auto nothing = gained_between(reading, reading);
  promise(nothing && !latency_of(*nothing, 1000.0), "nothing came between a reading and itself");
}

}  // namespace

void decision(std::string_view bytes) {
  const auto read = parse_decision(bytes);
  if (!read) {
    promise(!read.error().message.empty(), "an error has words");
    return;
  }
  const auto again = parse_decision(text_of(*read));
  promise(again.ok(), "what was read can be written and read");
  promise(text_of(*again) == text_of(*read), "and is the same then");
}

void telemetry(std::string_view bytes) {
  std::vector<TelemetrySample> lines;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    if (const auto sample = parse_telemetry_line(bytes.substr(0, end))) {
      check_sample(*sample);
      lines.push_back(*sample);
    }
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  }
  if (!lines.empty()) check_sample(combine(lines));
}

void schemata(std::string_view bytes) {
  const auto read = resctrl::parse_schemata(bytes);
  if (!read) return;
  for (const resctrl::SchemataLine& line : *read) {
    promise(!line.resource.empty() && !line.values.empty(), "a line has a name and values");
    const auto again = resctrl::parse_schemata(resctrl::format_line(line) + "\n");
    promise(again.ok() && again->size() == 1, "a line that was read can be written and read");
    promise(again->front().values == line.values, "and has the same values then");
  }
}

void pods(std::string_view bytes) {
  targets(bytes);
  const auto read = parse_pods(bytes);
  if (!read) {
    promise(!read.error().message.empty(), "an error has words");
    return;
  }
  promise(read->size() <= most_pods, "a list has an end");
  const auto in_path = [](const std::string& text, const char* allowed) {
    return text.size() <= 64 && text.find_first_not_of(allowed) == std::string::npos;
  };
  for (const Pod& pod : *read) {
    promise(is_name_in_dns(pod.name) && is_name_in_dns(pod.name_space), "a pod has names");
    promise(!pod.uid.empty() && in_path(pod.uid, "0123456789abcdef-"), "a uid can stand in a path");
    promise(in_path(pod.config_hash, "0123456789abcdef-"), "a hash can stand in a path");
    for (const PodContainer& container : pod.containers) {
      promise(is_name_in_dns(container.name), "a container has a name");
      promise(container.id.empty() || container.id.size() == 64, "an id is whole or missing");
      promise(in_path(container.id, "0123456789abcdef"), "an id can stand in a path");
    }
    check_asked(pod, service_of(pod, rules()));
  }
}

void prometheus(std::string_view bytes) {
  const auto read = parse_histograms(bytes, "rt", {{"path", "/q"}});
  if (!read) {
    promise(!read.error().message.empty(), "an error has words");
    return;
  }
  check_reading({*read, {}});
}

void prometheus_protobuf(std::string_view bytes) {
  const auto read = parse_families(bytes, "rt", {{"path", "/q"}});
  if (!read) {
    promise(!read.error().message.empty() && read.error().message.size() < 900, "a refusal is one sentence");
    return;
  }
  std::size_t buckets = 0;
  for (const auto& [labels, series] : read->native) {
    promise(series.counts.size() <= Exponential::most_buckets, "a series has a limit");
    for (const double count : series.counts) promise(is_measured(count), "a bucket counts from 0 on");
    promise(is_measured(series.sum) && is_measured(series.count), "a sum is a number from 0 on, or missing");
    buckets += series.counts.size();
  }
  promise(buckets <= most_native_buckets * most_series_of_service, "all have one together");
  check_reading(*read);
}

}  // namespace osml::fuzz
