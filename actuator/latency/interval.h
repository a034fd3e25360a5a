// What the requests of one interval took, and the telemetry line that the agent reads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "request_text.h"

namespace osml::latency {

class Interval {
 public:
  // Latencies that are kept; of more, a uniform sample (Vitter's algorithm R), so that memory has a limit. Each keeps
  // for how many requests it stands.
  static constexpr std::size_t most_kept = 200'000;

  explicit Interval(std::uint64_t seed = 1) : random_(seed) {}

  void add(const Request& request);
  [[nodiscard]] bool empty() const { return seen_ == 0; }
  // `times`: so many requests came for each that was added.
  // One JSON object with mean_ms, p50_ms, p95_ms, p99_ms, requests_per_s and samples; then empty. Nothing where no
  // request came. A percentile is the least latency that so many of the requests, those that a client left out too, did
  // not exceed (nearest rank).
  std::optional<std::string> take(double length_s, double times = 1);

 private:
  // Of ascending shares.
  std::array<double, 3> quantiles(const std::array<double, 3>& shares);

  std::mt19937_64 random_;
  std::vector<Request> kept_;
  std::uint64_t seen_ = 0;  // latencies
  double requests_ = 0;
  double sum_ms_ = 0;  // over requests
};

}  // namespace osml::latency
