// The domain's Platform from what the machine says: sysfs for CPUs, siblings and caches, resctrl for ways and
// bandwidth, the configuration for what neither tells.
#pragma once

#include <optional>

#include "base/cpuset.h"
#include "config/config.h"
#include "domain/types.h"
#include "resctrl/info.h"

namespace osml {

// CPUs that may be handed out: online and, where the operator names some, among those. Input where nothing is left.
Result<CpuSet> usable_cpus(const Config& config);

// `quota` says whether every service has a CPU quota knob: with fewer CPUs than services and quota, CPUs are handed
// out in slices of a tenth (core_quantum 0.1), unless the operator sets cpu.quantum.
Result<Platform> read_platform(const Config& config, const std::optional<resctrl::Info>& info, bool quota);

}  // namespace osml
