#include "statistics.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace osml::loadgen {
namespace {

nlohmann::json ms_or_null(std::optional<Nanos> time) {
  if (!time) return nullptr;
  return std::round(to_ms(*time) * 1e4) / 1e4;
}

}  // namespace

void Statistics::restart(Nanos start) { *this = Statistics(start); }

nlohmann::json Statistics::to_json(Nanos now) const {
  const double seconds = to_seconds(now - start_);
  return {{"interval_s", seconds},
          {"mean_ms", ms_or_null(latency_.mean())},
          {"p50_ms", ms_or_null(latency_.percentile(0.50))},
          {"p95_ms", ms_or_null(latency_.percentile(0.95))},
          {"p99_ms", ms_or_null(latency_.percentile(0.99))},
          {"requests_per_s", seconds > 0 ? nlohmann::json(static_cast<double>(answered_) / seconds) : nullptr},
          {"samples", latency_.count()},
          {"lateness_p50_ms", ms_or_null(lateness_.percentile(0.50))},
          {"lateness_p99_ms", ms_or_null(lateness_.percentile(0.99))},
          {"errors", errors_}};
}

nlohmann::json Statistics::latencies() const {
  nlohmann::json pairs = nlohmann::json::array();
  latency_.for_each([&](Nanos middle, std::uint32_t samples) { pairs.push_back({ms_or_null(middle), samples}); });
  return pairs;
}

}  // namespace osml::loadgen
