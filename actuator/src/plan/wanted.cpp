#include "plan/wanted.h"

#include "base/mask.h"
#include "base/number.h"
#include "resctrl/group.h"

namespace osml {

Wanted wanted_values(const Assignment& assignment) {
  Wanted wanted;
  if (assignment.way_mask) wanted[Aspect::Ways] = format_mask(*assignment.way_mask);
  if (assignment.mba) wanted[Aspect::Mba] = std::to_string(*assignment.mba);
  if (!wanted.empty()) {
    wanted[Aspect::Group] = "present";
    wanted[Aspect::Tasks] = resctrl::group_name(assignment.service);
  }
  if (assignment.cpus) wanted[Aspect::Cpus] = *assignment.cpus;
  if (assignment.cpu_quota) wanted[Aspect::Quota] = format_number(*assignment.cpu_quota);
  if (assignment.cpu_weight) wanted[Aspect::Weight] = std::to_string(*assignment.cpu_weight);
  const Levers& levers = assignment.levers;
  if (levers.memory_mib) wanted[Aspect::Memory] = std::to_string(*levers.memory_mib);
  if (levers.disk_iops) wanted[Aspect::Disk] = std::to_string(*levers.disk_iops);
  if (levers.realtime_priority) wanted[Aspect::Priority] = std::to_string(*levers.realtime_priority);
  if (levers.frequency_mhz) wanted[Aspect::Clock] = std::to_string(*levers.frequency_mhz);
  return wanted;
}

}  // namespace osml
