#include "targets.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "domain/json.h"
#include "resctrl/schemata.h"
#include "telemetry/histogram.h"
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

}  // namespace

void promise(bool kept, const char* what) {
  if (kept) return;
  (void)std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

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

void prometheus(std::string_view bytes) {
  const auto read = parse_histogram(bytes, "rt", {{"path", "/q"}});
  if (!read) return;
  promise(!read->buckets.empty(), "a histogram has buckets");
  for (std::size_t i = 0; i < read->buckets.size(); ++i) {
    const Bucket& bucket = read->buckets[i];
    promise(std::isfinite(bucket.count) && bucket.count >= 0, "a bucket counts from 0 on");
    promise(i == 0 || read->buckets[i - 1].upper < bucket.upper, "buckets ascend");
  }
  promise(!read->sum || std::isfinite(*read->sum), "a sum is a number, or missing");
  const auto nothing = difference(*read, *read);
  promise(nothing && !quantile(*nothing, 0.99), "nothing came between a reading and itself");
  for (const double q : {0.5, 0.95, 0.99}) {
    const auto value = quantile(*read, q);
    promise(!value || !std::isnan(*value), "a percentile is a number");
  }
}

}  // namespace osml::fuzz
