// The node's cache groups: how many there may be, and which service is in which.
#include <algorithm>

#include "apply/node_state.h"
#include "levers/cpu_idle.h"
#include "plan/group_sharing.h"
#include "resctrl/group.h"

namespace osml {

std::map<std::string, Wanted> Actuator::State::wanted_of(const Decision& decision) const {
  std::map<std::string, Wanted> wanted;
  for (const Assignment& assignment : decision.assignments) wanted[assignment.service] = wanted_of(assignment);
  std::set<std::string> existing;
  for (const KnobSet& set : knobs) {
    const auto of_job = wanted.find(set.service);
    if (of_job != wanted.end() && set.is_idle_job()) of_job->second[Aspect::Weight] = idle_word;
    const Knob* group = set.find(Aspect::Group);
    const auto now = group == nullptr ? Result<std::string>(std::string()) : set.find(Aspect::Group)->read();
    if (now && !now->empty()) existing.insert(set.service);
  }
  share_groups(wanted, group_room, alone(wanted), existing);
  return wanted;
}

// A guest has the ways of its host.
std::map<std::string, Wanted> Actuator::State::last_decided() const {
  std::map<std::string, Wanted> last = applied_values();
  for (const Applied& applied : journal.applied) {
    Wanted& values = last[applied.service];
    const auto tasks = values.find(Aspect::Tasks);
    if (tasks == values.end()) continue;
    for (const Applied& host : journal.applied) {
      const auto ways = host.values.find(Aspect::Ways);
      if (osml::resctrl::group_name(host.service) == tasks->second && ways != host.values.end()) {
        values[Aspect::Ways] = ways->second;
      }
    }
  }
  return last;
}

std::optional<std::string> Actuator::State::groups_refusal(const Decision& decision) const {
  if (!group_room) return std::nullopt;
  std::map<std::string, Wanted> wanted;
  for (const Assignment& assignment : decision.assignments) wanted[assignment.service] = wanted_of(assignment);
  const unsigned needed = needed_groups(wanted, alone(wanted));
  if (needed <= *group_room) return std::nullopt;
  return "the assignments need " + std::to_string(needed) + " cache groups, but this node has room for " +
         std::to_string(*group_room) + "; give more services the same way_mask and the same mba";
}

std::set<std::string> Actuator::State::alone(const std::map<std::string, Wanted>& wanted) const {
  std::set<std::string> services;
  for (const KnobSet& set : knobs) {
    const Knob* mba = set.find(Aspect::Mba);
    const auto values = wanted.find(set.service);
    const bool limited = values != wanted.end() && values->second.contains(Aspect::Mba);
    if (limited && mba != nullptr && mba->backend() == "regulator") services.insert(set.service);
  }
  return services;
}

const KnobSet& Actuator::State::host_of(const KnobSet& set) const {
  const Applied* own = journal.applied_to(set.service);
  const auto tasks = own == nullptr ? Wanted::const_iterator() : own->values.find(Aspect::Tasks);
  if (own == nullptr || tasks == own->values.end()) return set;
  const auto host = std::find_if(knobs.begin(), knobs.end(), [&](const KnobSet& one) {
    return osml::resctrl::group_name(one.service) == tasks->second;
  });
  return host == knobs.end() ? set : *host;
}

bool Actuator::State::shares_group(const std::string& service) const {
  const auto tasks_of = [](const Applied& applied) {
    const auto found = applied.values.find(Aspect::Tasks);
    return found == applied.values.end() ? std::string() : found->second;
  };
  const Applied* own = journal.applied_to(service);
  if (own == nullptr || tasks_of(*own).empty()) return false;
  return std::any_of(journal.applied.begin(), journal.applied.end(), [&](const Applied& other) {
    return other.service != service && other.there && tasks_of(other) == tasks_of(*own);
  });
}

}  // namespace osml
