#include "plan/clocks.h"

#include <algorithm>

namespace osml {

std::map<std::string, std::uint64_t> clock_limits(const std::vector<ClockDomain>& domains,
                                                  const std::vector<CpuUser>& users) {
  constexpr std::uint64_t unlimited = UINT64_MAX;
  std::map<unsigned, std::uint64_t> of_cpu;
  std::uint64_t everywhere = 0;  // of the services that may run on each CPU
  for (const CpuUser& user : users) {
    const std::uint64_t mhz = user.mhz.value_or(unlimited);
    if (!user.cpus) everywhere = std::max(everywhere, mhz);
    for (const unsigned cpu : user.cpus.value_or(CpuSet{})) of_cpu[cpu] = std::max(of_cpu[cpu], mhz);
  }
  std::map<std::string, std::uint64_t> limits;
  for (const ClockDomain& domain : domains) {
    std::uint64_t highest = everywhere;
    for (const unsigned cpu : domain.cpus) {
      const auto found = of_cpu.find(cpu);
      const bool idle = found == of_cpu.end() && everywhere == 0;
      if (found != of_cpu.end() || idle) highest = std::max(highest, idle ? unlimited : found->second);
    }
    if (highest != unlimited) limits[domain.part] = highest;
  }
  return limits;
}

}  // namespace osml
