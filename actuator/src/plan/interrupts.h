// Where interrupts go. No decision names them: they leave the CPUs that one latency-critical service has for itself,
// since what an interrupt takes of a CPU is nowhere in the cgroup of the service. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/cpuset.h"
#include "plan/cpu_user.h"

namespace osml {

// CPUs that belong to one latency-critical service and to nobody else. A service without CPUs of its own has none, and
// makes nobody share.
CpuSet owned_alone(const std::vector<CpuUser>& users);

// The CPUs for an interrupt that was found on `found`; none = it stays there. It stays on those of them that nobody
// owns, also on CPUs that are not usable; else it goes to usable ones that nobody owns. Never to offline CPUs alone.
std::optional<CpuSet> kept_away(const CpuSet& found, const CpuSet& owned, const CpuSet& usable, const CpuSet& online);

}  // namespace osml
