#include "telemetry/telemetry_line.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "domain/keys.h"

namespace osml {

namespace {

using nlohmann::json;

std::optional<double> number(const json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  if (!std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> count(const json& line, const char* key) {
  const auto value = number(line, key);
  constexpr double largest = 1e15;
  if (!value || *value > largest) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

constexpr std::array<Amount, 4> amounts = {&Counters::instructions, &Counters::cycles, &Counters::llc_misses,
                                           &Counters::throttled_s};

double weight(const TelemetrySample& sample) { return static_cast<double>(sample.latency.samples.value_or(1)); }

std::optional<double> weighted(const std::vector<TelemetrySample>& lines, std::optional<double> Latency::*field) {
  // Lines that all say 0 samples count alike: what was sent is not lost.
  const bool none_counts =
      std::all_of(lines.begin(), lines.end(), [](const TelemetrySample& line) { return weight(line) == 0; });
  double sum = 0;
  double weights = 0;
  for (const TelemetrySample& line : lines) {
    if (!(line.latency.*field)) continue;
    const double of_line = none_counts ? 1 : weight(line);
    sum += of_line * *(line.latency.*field);
    weights += of_line;
  }
  if (weights == 0 || !std::isfinite(sum)) return std::nullopt;
  return sum / weights;
}

}  // namespace

std::optional<TelemetrySample> parse_telemetry_line(std::string_view text) {
  const json line = json::parse(text, nullptr, false);
  if (!line.is_object()) return std::nullopt;
  TelemetrySample sample;
  sample.latency = {number(line, key::mean_ms),
                    number(line, key::p50_ms),
                    number(line, key::p95_ms),
                    number(line, key::p99_ms),
                    number(line, key::requests_per_s),
                    count(line, key::samples),
                    std::nullopt};
  Counters& counters = sample.counters;
  counters.cpu_usage_cores = number(line, key::cpu_usage_cores);
  counters.throttled_s = number(line, key::throttled_s);
  counters.threads = count(line, key::threads);
  counters.instructions = number(line, key::instructions);
  counters.cycles = number(line, key::cycles);
  counters.ipc = number(line, key::ipc);
  counters.llc_misses = number(line, key::llc_misses);
  counters.llc_occupancy_mib = number(line, key::llc_occupancy_mib);
  counters.bandwidth_gbps = number(line, key::bandwidth_gbps);
  counters.bandwidth_total_gbps = number(line, key::bandwidth_total_gbps);
  counters.frequency_ghz = number(line, key::frequency_ghz);
  counters.rss_mib = number(line, key::rss_mib);
  counters.vms_mib = number(line, key::vms_mib);
  counters.work_rate = number(line, key::work_rate);
  sample.length_s = number(line, key::interval_s);
  return sample;
}

TelemetrySample combine(const std::vector<TelemetrySample>& lines) {
  const TelemetrySample* largest = &lines.front();
  std::optional<std::uint64_t> samples;
  double rate = 0;
  std::size_t rates = 0;
  for (const TelemetrySample& line : lines) {
    if (weight(line) >= weight(*largest)) largest = &line;
    if (line.latency.samples) samples = samples.value_or(0) + *line.latency.samples;
    if (!line.latency.requests_per_s) continue;
    rate += *line.latency.requests_per_s;
    ++rates;
  }
  TelemetrySample combined;
  combined.latency = largest->latency;
  combined.latency.samples = samples;
  combined.latency.mean_ms = weighted(lines, &Latency::mean_ms);
  // Each line is about a time of its own, so rates are averaged, not added.
  const bool known = rates > 0 && std::isfinite(rate);
  combined.latency.requests_per_s = known ? std::optional<double>(rate / static_cast<double>(rates)) : std::nullopt;
  combined.counters = lines.back().counters;
  for (const Amount amount : amounts) {
    std::optional<double>& sum = combined.counters.*amount;
    sum.reset();
    for (const TelemetrySample& line : lines) {
      if (line.counters.*amount) sum = sum.value_or(0) + *(line.counters.*amount);
    }
    if (sum && !std::isfinite(*sum)) sum.reset();
  }
  const bool all_say = std::all_of(lines.begin(), lines.end(), [](const auto& line) { return line.length_s; });
  if (all_say) {
    combined.length_s = std::accumulate(lines.begin(), lines.end(), 0.0,
                                        [](double sum, const auto& line) { return sum + *line.length_s; });
  }
  return combined;
}

std::vector<Amount> amounts_of(const TelemetrySample& sample) {
  std::vector<Amount> found;
  for (const Amount amount : amounts) {
    if (sample.counters.*amount) found.push_back(amount);
  }
  return found;
}

std::vector<Amount> take_amounts(TelemetrySample& sample) {
  const std::vector<Amount> taken = amounts_of(sample);
  for (const Amount amount : taken) (sample.counters.*amount).reset();
  return taken;
}

void fit_amounts(TelemetrySample& sample, double interval_s) {
  constexpr double as_long = 0.1;  // of the interval: two clocks never agree to the last digit
  if (!sample.length_s || *sample.length_s <= 0) return;
  if (std::abs(*sample.length_s - interval_s) <= as_long * interval_s) return;
  for (const Amount amount : amounts) {
    if (sample.counters.*amount) *(sample.counters.*amount) *= interval_s / *sample.length_s;
  }
}

}  // namespace osml
