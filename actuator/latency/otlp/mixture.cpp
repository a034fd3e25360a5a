#include "otlp/mixture.h"

#include <algorithm>

namespace osml::latency::otlp {

bool Mixture::add(const Exponential& gained) {
  const auto found = std::find_if(exponential_.begin(), exponential_.end(),
                                  [&](const Exponential& one) { return one.unit_ms == gained.unit_ms; });
  if (found != exponential_.end()) {
    osml::add(*found, gained);
    return true;
  }
  if (exponential_.size() == most_shapes) return false;
  exponential_.push_back(gained);
  return true;
}

std::optional<Latency> Mixture::take() {
  std::vector<Histogram> parts = std::move(plain_);
  for (const Exponential& one : exponential_) parts.push_back(as_histogram(one));
  plain_.clear();
  exponential_.clear();
  if (parts.empty()) return std::nullopt;
  return latency_of(mix(parts), 1.0);
}

}  // namespace osml::latency::otlp
