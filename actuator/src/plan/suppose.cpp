#include "plan/suppose.h"

#include <algorithm>

namespace osml {

std::vector<Assignment> suppose(std::vector<Assignment> held, const Decision& decision,
                                const std::vector<Assignment>& found) {
  const auto take = [](auto& now, const auto& wanted) {
    if (wanted) now = wanted;
  };
  for (Assignment& now : held) {
    const auto wanted = std::find_if(decision.assignments.begin(), decision.assignments.end(),
                                     [&](const Assignment& one) { return one.service == now.service; });
    if (wanted == decision.assignments.end()) continue;
    const auto first =
        std::find_if(found.begin(), found.end(), [&](const Assignment& one) { return one.service == now.service; });
    if (first != found.end()) now = *first;
    take(now.cpus, wanted->cpus);
    take(now.cpu_quota, wanted->cpu_quota);
    take(now.cpu_weight, wanted->cpu_weight);
    take(now.way_mask, wanted->way_mask);
    take(now.mba, wanted->mba);
    take(now.levers.memory_mib, wanted->levers.memory_mib);
    take(now.levers.disk_iops, wanted->levers.disk_iops);
    take(now.levers.realtime_priority, wanted->levers.realtime_priority);
    take(now.levers.frequency_mhz, wanted->levers.frequency_mhz);
  }
  return held;
}

}  // namespace osml
