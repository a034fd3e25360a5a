#include "plan/core_limits.h"

#include <algorithm>
#include <cmath>

namespace osml {

// What nobody limits is one core unit at least, however small that is.
CoreLimits core_limits(const ServiceConfig& service, const CpuConfig& cpu, const Platform& platform) {
  const auto units = static_cast<unsigned>(std::lround(cpu.limit_unit() / platform.core_quantum));
  const bool given = service.limits.min_cores_given || service.spec.min_cores > 1;
  CoreLimits limits;
  if (given) limits.least = service.spec.min_cores * units;
  if (service.spec.max_cores) limits.most = *service.spec.max_cores * units;
  return limits;
}

void set_core_limits(std::vector<Service>& observed, const Config& config, const Platform& platform) {
  for (Service& service : observed) {
    const auto known =
        std::find_if(config.services.begin(), config.services.end(),
                     [&](const ServiceConfig& candidate) { return candidate.spec.name == service.name; });
    if (known == config.services.end()) continue;
    const CoreLimits limits = core_limits(*known, config.cpu, platform);
    service.min_cores = limits.least;
    service.max_cores = limits.most;
  }
}

}  // namespace osml
