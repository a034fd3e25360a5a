#include "interval.h"

#include <algorithm>

#include "line.h"

namespace osml::latency {

void Interval::add(const Request& request) {
  ++seen_;
  requests_ += request.count;
  sum_ms_ += request.latency_ms * request.count;
  if (kept_.size() < most_kept) {
    kept_.push_back(request);
    return;
  }
  const std::uint64_t place = std::uniform_int_distribution<std::uint64_t>(0, seen_ - 1)(random_);
  if (place < most_kept) kept_[place] = request;
}

std::array<double, 3> Interval::quantiles(const std::array<double, 3>& shares) {
  std::sort(kept_.begin(), kept_.end(),
            [](const Request& one, const Request& other) { return one.latency_ms < other.latency_ms; });
  double all = 0;
  for (const Request& request : kept_) all += request.count;
  constexpr double rounding = 1 - 1e-9;
  std::array<double, 3> found{};
  std::size_t next = 0;
  double at_most = 0;
  for (const Request& request : kept_) {
    at_most += request.count;
    while (next < shares.size() && at_most >= shares[next] * all * rounding) found[next++] = request.latency_ms;
  }
  return found;
}

std::optional<std::string> Interval::take(double length_s, double times) {
  if (empty()) return std::nullopt;
  const auto [p50, p95, p99] = quantiles({0.50, 0.95, 0.99});
  Latency latency;
  latency.mean_ms = sum_ms_ / requests_;
  latency.p50_ms = p50;
  latency.p95_ms = p95;
  latency.p99_ms = p99;
  latency.requests_per_s = requests_ * times / length_s;
  latency.samples = seen_;
  kept_.clear();
  seen_ = 0;
  requests_ = sum_ms_ = 0;
  return line_of(latency, length_s);
}

}  // namespace osml::latency
