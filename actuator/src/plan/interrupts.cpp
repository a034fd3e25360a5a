#include "plan/interrupts.h"

#include <map>

namespace osml {

CpuSet owned_alone(const std::vector<CpuUser>& users) {
  struct Owners {
    unsigned critical = 0;
    unsigned all = 0;
  };
  std::map<unsigned, Owners> of_cpu;
  for (const CpuUser& user : users) {
    for (const unsigned cpu : user.cpus.value_or(CpuSet{})) {
      ++of_cpu[cpu].all;
      if (!user.job) ++of_cpu[cpu].critical;
    }
  }
  CpuSet owned;
  for (const auto& [cpu, owners] : of_cpu) {
    if (owners.all == 1 && owners.critical == 1) owned.push_back(cpu);
  }
  return owned;
}

std::optional<CpuSet> kept_away(const CpuSet& found, const CpuSet& owned, const CpuSet& usable, const CpuSet& online) {
  const CpuSet left = without(found, owned);
  if (!intersect(left, online).empty()) return left == found ? std::nullopt : std::optional(left);
  CpuSet elsewhere = without(usable, owned);
  return intersect(elsewhere, online).empty() ? std::nullopt : std::optional(std::move(elsewhere));
}

}  // namespace osml
