#include "line.h"

#include <nlohmann/json.hpp>

#include "domain/keys.h"

namespace osml::latency {

std::string line_of(const Latency& latency, double length_s) {
  nlohmann::json line{{key::interval_s, length_s}};
  const auto put = [&line](const char* name, const auto& value) {
    if (value) line[name] = *value;
  };
  put(key::mean_ms, latency.mean_ms);
  put(key::p50_ms, latency.p50_ms);
  put(key::p95_ms, latency.p95_ms);
  put(key::p99_ms, latency.p99_ms);
  put(key::requests_per_s, latency.requests_per_s);
  put(key::samples, latency.samples);
  return line.dump();
}

}  // namespace osml::latency
