// Which limit each clock domain gets. A decision has a limit for each service, but the CPUs of a domain share one. So a
// domain gets the highest limit of the services on its CPUs. It gets none where one of these services has no limit, or
// where one of its CPUs has no service: nobody is slowed down by the limit of a neighbour. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/cpuset.h"
#include "levers/cpufreq.h"

namespace osml {

// A service that is there.
struct ClockUser {
  std::optional<CpuSet> cpus;  // absent = it may run on each
  std::optional<std::uint64_t> mhz;
};

// Part -> MHz, of the domains that get a limit.
std::map<std::string, std::uint64_t> clock_limits(const std::vector<ClockDomain>& domains,
                                                  const std::vector<ClockUser>& users);

}  // namespace osml
