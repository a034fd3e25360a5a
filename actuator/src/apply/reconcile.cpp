// What happens between decisions: threads are born, CPUs and cache domains come and go.
#include <algorithm>
#include <optional>

#include "apply/node_state.h"
#include "apply/restore.h"
#include "resctrl/group.h"

namespace osml {

namespace {

// Keeps the first error and goes on: one service's trouble is not the others'.
void note(Status& first, const Status& status) {
  if (first && !status) first = status;
}

// What the last decision set is there. A cgroup that came since has nothing of it, and what it has instead is not in
// the journal before follow_cgroups() has looked.
bool is_where_it_was(const Applied& known, const KnobSet& set) {
  const bool moved = !set.absent && known.match != set.match;
  return known.there == !set.absent && known.cgroup_inode == set.cgroup_inode && !moved;
}

}  // namespace

// A cache domain that was offline comes back with the full mask for everybody, and v1 cpusets forget CPUs.
Status Actuator::State::reapply() {
  Status first = done();
  const auto tree = lock_resctrl();
  if (!tree) return tree.error();
  for (const KnobSet& set : knobs) {
    if (set.absent) continue;
    const Applied* applied = journal.applied_to(set.service);
    if (applied != nullptr && is_where_it_was(*applied, set)) note(first, set_again(set, applied->values));
  }
  return first;
}

bool Actuator::State::has_lost_group() const {
  return std::any_of(knobs.begin(), knobs.end(), [this](const KnobSet& set) {
    Knob* group = set.find(Aspect::Group);
    const Applied* applied = journal.applied_to(set.service);
    if (group == nullptr || set.absent || applied == nullptr || !is_where_it_was(*applied, set)) return false;
    // A guest in the group of another service has none, and is to have none.
    const auto wanted = applied->values.find(Aspect::Group);
    if (wanted == applied->values.end() || wanted->second.empty()) return false;
    const auto now = group->read();
    return now && now->empty();
  });
}

// Everything that differs from what was applied.
Status Actuator::State::set_again(const KnobSet& set, const Wanted& values) {
  Status first = done();
  for (const auto& [aspect, value] : values) {
    Knob* knob = set.find(aspect);
    if (knob == nullptr) continue;
    const auto now = knob->read();
    if (!now) {
      note(first, now.error());
    } else if (!knob->same(*now, value)) {
      note(first, knob->write(value));
    }
  }
  return first;
}

// The originals of the new cgroup are in the journal before anything is written. Where a write fails, the next interval
// tries again.
Status Actuator::State::follow_cgroups() {
  Status first = done();
  std::optional<Result<Fd>> tree;
  for (const KnobSet& set : knobs) {
    const Applied* known = journal.applied_to(set.service);
    if (known == nullptr) continue;
    if (is_where_it_was(*known, set) || !set.looked_at) continue;
    Applied fresh = *known;
    fresh.match = set.match;
    fresh.there = !set.absent;
    fresh.cgroup_inode = set.cgroup_inode;
    fresh.values.erase(Aspect::Nodes);  // there may be no room by now: follow_memory() looks
    if (!set.absent) {
      if (!tree) tree.emplace(lock_resctrl());  // once: each wait for it is a second
      const Journal before = journal;
      Status noted = *tree ? note_originals({{set.service, fresh.values}}) : Status(tree->error());
      if (noted) noted = keep_journal();
      if (!noted) journal = before;
      const Status written = noted ? set_again(set, fresh.values) : noted;
      note(first, written);
      if (!written) continue;
    }
    *std::find(journal.applied.begin(), journal.applied.end(), *journal.applied_to(set.service)) = fresh;
    note(first, keep_journal());
  }
  return first;
}

bool Actuator::State::hosts_others(const std::string& service) const {
  const std::string group = osml::resctrl::group_name(service);
  return std::any_of(journal.applied.begin(), journal.applied.end(), [&](const Applied& other) {
    const auto tasks = other.values.find(Aspect::Tasks);
    return other.service != service && other.there && tasks != other.values.end() && tasks->second == group;
  });
}

// Of a service that has gone, that was started anew, or that is a pod or container at another place by now. A group in
// which other services are as well stays until a decision has moved them.
bool Actuator::State::is_left(const KnobName& name) const {
  const Place* place = place_of(places, name.service);
  if (place == nullptr) return unasked.contains(name.service) && !hosts_others(name.service);
  if (place->absent) return !hosts_others(name.service);
  const bool group_of_service = name.backend == "resctrl" && name.aspect != Aspect::Tasks;
  if (group_of_service) return false;
  if (is_superseded(name)) return true;
  const bool anew = name.cgroup_inode && place->cgroup_inode && *name.cgroup_inode != *place->cgroup_inode;
  return anew || (!name.match.found_by.empty() && name.match != place->match);
}

bool Actuator::State::is_superseded(const KnobName& name) const {
  const auto set =
      std::find_if(knobs.begin(), knobs.end(), [&](const KnobSet& one) { return one.service == name.service; });
  const Knob* knob = set == knobs.end() ? nullptr : set->find(name.aspect);
  return knob != nullptr && knob->backend() != name.backend;
}

Status Actuator::State::leave_absent() {
  forget_unasked();
  std::vector<KnobName> superseded;
  for (const Saved& saved : journal.originals) {
    if (is_superseded(saved.name)) superseded.push_back(saved.name);
  }
  const auto given = give_back([this](const KnobName& name) { return is_left(name); });
  // The new backend has none of what the last decision set: follow_cgroups() sets it there.
  for (const KnobName& name : superseded) {
    if (journal.find(name) != nullptr) continue;
    for (Applied& applied : journal.applied) {
      if (applied.service == name.service) applied.there = false;
    }
  }
  return given ? given->back : Status(given.error());
}

// A pod that asks again later is a stranger: what was decided for the one before is not kept. It goes to the disk with
// the next change.
void Actuator::State::forget_unasked() {
  std::erase_if(journal.applied, [this](const Applied& one) { return unasked.contains(one.service); });
  std::erase_if(unasked, [this](const std::string& name) {
    return std::none_of(journal.originals.begin(), journal.originals.end(),
                        [&](const Saved& saved) { return saved.name.service == name; });
  });
}

Status Actuator::State::follow_tasks() {
  Status first = done();
  for (const KnobSet& set : knobs) {
    const Applied* applied = journal.applied_to(set.service);
    if (applied == nullptr || set.absent || !is_where_it_was(*applied, set)) continue;
    for (const auto& [aspect, value] : applied->values) {
      if (Knob* knob = set.find(aspect)) note(first, knob->reconcile(value));
    }
  }
  return first;
}

Status Actuator::State::follow_memory() {
  if (!config->cpu.follow_memory || numa.empty()) return done();
  auto wanted = applied_values();
  if (Status added = add_memory(wanted); !added) return added;
  Status first = done();
  for (const KnobSet& set : knobs) {
    const Knob* knob = set.find(Aspect::Nodes);
    const auto known = std::find_if(journal.applied.begin(), journal.applied.end(),
                                    [&](const Applied& one) { return one.service == set.service; });
    if (knob == nullptr || known == journal.applied.end() || !is_where_it_was(*known, set)) continue;
    const Wanted& values = wanted.at(set.service);
    const auto nodes = values.find(Aspect::Nodes);
    if (nodes == values.end()) continue;  // the next decision puts back what was found
    if (journal.find(set.name(*knob)) == nullptr || known->values[Aspect::Nodes] != nodes->second) {
      const Journal before = journal;
      known->values[Aspect::Nodes] = nodes->second;
      Status noted = note_originals({{set.service, {*nodes}}});
      if (noted) noted = keep_journal();
      if (!noted) journal = before;
      note(first, noted);
      if (!noted) continue;
    }
    note(first, set_again(set, {*nodes}));
  }
  return first;
}

// Where the machine monitors but does not allocate no decision ever makes a group, so they are made here: without
// them nobody could tell the services' cache use apart. A machine out of RMIDs goes without.
Status Actuator::State::monitor_only_groups() {
  if (!resctrl || !resctrl->monitor || resctrl->allocates()) return done();
  Status first = done();
  for (const KnobSet& set : knobs) {
    if (set.absent) continue;
    Knob* group = set.find(Aspect::Group);
    Knob* tasks = set.find(Aspect::Tasks);
    const auto now = group == nullptr ? Result<std::string>(std::string()) : group->read();
    if (group == nullptr || tasks == nullptr || !now) continue;
    const Wanted watched = {{Aspect::Group, "present"}, {Aspect::Tasks, osml::resctrl::group_name(set.service)}};
    const std::size_t known = journal.originals.size();
    if (Status noted = note_originals({{set.service, watched}}); !noted) return noted;
    if (journal.originals.size() != known) {
      if (Status saved = keep_journal(); !saved) return saved;
    }
    const Status made = now->empty() ? group->write("present") : done();
    note(first, made);
    if (made) note(first, tasks->reconcile(watched.at(Aspect::Tasks)));
  }
  return first;
}

}  // namespace osml
