// Which limit each clock domain gets. A decision has a limit for each service, but the CPUs of a domain share one. So a
// domain gets the highest limit of the services on its CPUs. It gets none where one of these services has no limit, or
// where one of its CPUs has no service: nobody is slowed down by the limit of a neighbour. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "levers/cpufreq.h"
#include "plan/cpu_user.h"

namespace osml {

// Part -> MHz, of the domains that get a limit.
std::map<std::string, std::uint64_t> clock_limits(const std::vector<ClockDomain>& domains,
                                                  const std::vector<CpuUser>& users);

}  // namespace osml
