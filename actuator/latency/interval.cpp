#include "interval.h"

#include <algorithm>
#include <cmath>

#include "line.h"

namespace osml::latency {

void Interval::add(const Request& request) {
  ++seen_;
  requests_ += request.count;
  sum_ms_ += request.latency_ms * request.count;
  if (kept_.size() < most_kept) {
    kept_.push_back(request.latency_ms);
    return;
  }
  const std::uint64_t place = std::uniform_int_distribution<std::uint64_t>(0, seen_ - 1)(random_);
  if (place < most_kept) kept_[place] = request.latency_ms;
}

double Interval::quantile(double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(kept_.size())));
  const auto place = kept_.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(kept_.begin(), place, kept_.end());
  return *place;
}

std::optional<std::string> Interval::take(double length_s) {
  if (empty()) return std::nullopt;
  Latency latency;
  latency.mean_ms = sum_ms_ / requests_;
  latency.p50_ms = quantile(0.50);
  latency.p95_ms = quantile(0.95);
  latency.p99_ms = quantile(0.99);
  latency.requests_per_s = requests_ / length_s;
  latency.samples = seen_;
  kept_.clear();
  seen_ = 0;
  requests_ = sum_ms_ = 0;
  return line_of(latency, length_s);
}

}  // namespace osml::latency
