// The operator's limits of cores in core units of the platform, which policies count in and `even` deals out. Pure.
#pragma once

#include <optional>
#include <vector>

#include "config/config.h"
#include "domain/types.h"

namespace osml {

struct CoreLimits {
  unsigned least = 1;
  std::optional<unsigned> most;
};

CoreLimits core_limits(const ServiceConfig& service, const CpuConfig& cpu, const Platform& platform);
// In what the server is told of them.
void set_core_limits(std::vector<Service>& observed, const Config& config, const Platform& platform);

}  // namespace osml
