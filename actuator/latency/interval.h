// What the requests of one interval took, and the telemetry line that the agent reads.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "request_text.h"

namespace osml::latency {

class Interval {
 public:
  // Latencies that are kept; of more, a uniform sample (Vitter's algorithm R), so that memory has a limit.
  static constexpr std::size_t most_kept = 200'000;

  explicit Interval(std::uint64_t seed = 1) : random_(seed) {}

  void add(const Request& request);
  [[nodiscard]] bool empty() const { return seen_ == 0; }
  // One JSON object with mean_ms, p50_ms, p95_ms, p99_ms, requests_per_s and samples; then empty. Nothing where no
  // request came. A percentile is the least latency that so many of the requests did not exceed (nearest rank).
  std::optional<std::string> take(double length_s);

 private:
  [[nodiscard]] double quantile(double share);

  std::mt19937_64 random_;
  std::vector<double> kept_;
  std::uint64_t seen_ = 0;  // latencies
  double requests_ = 0;
  double sum_ms_ = 0;  // over requests
};

}  // namespace osml::latency
