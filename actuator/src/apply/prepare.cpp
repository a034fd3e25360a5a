// From a decision to the changes of the machine: a decision is a complete state, so what it leaves out goes back to
// what was found.
#include <algorithm>

#include "apply/node_state.h"

namespace osml {

namespace {

// What a knob has that the decision says nothing of; the snapshot to go back to.
const std::string* found_of(const Journal& journal, const KnobSet& set, const Knob& knob) {
  // Ways and throttle go with their group; the software regulator's budgets are files.
  const bool of_group = knob.backend() == "resctrl" && (knob.aspect() == Aspect::Ways || knob.aspect() == Aspect::Mba);
  const Saved* saved = of_group ? nullptr : journal.find(set.name(knob));
  return saved == nullptr ? nullptr : &saved->snapshot;
}

Result<std::optional<Prepared>> to_set(const std::string& service, Knob& knob, const std::string& wanted) {
  const auto now = knob.read();
  if (!now) return now.error();
  if (knob.same(*now, wanted)) return std::optional<Prepared>();
  const auto snapshot = knob.snapshot();
  if (!snapshot) return snapshot.error();
  return std::optional<Prepared>({{service, knob.aspect(), *now, wanted}, &knob, *snapshot});
}

Result<std::optional<Prepared>> to_release(const std::string& service, Knob& knob, const std::string& found) {
  const auto snapshot = knob.snapshot();
  if (!snapshot) return snapshot.error();
  if (*snapshot == found) return std::optional<Prepared>();
  const auto now = knob.read();
  if (!now) return now.error();
  return std::optional<Prepared>({{service, knob.aspect(), *now, "", found}, &knob, *snapshot});
}

// A clock that heat holds below its limit has the limit.
bool is_held(const ClockLimits& limits, const std::string& domain, Knob& knob, const std::string& wanted) {
  const auto limit = limits.find(domain);
  if (limit == limits.end() || limit->second != wanted) return false;
  const auto now = knob.read();
  return now && knob.accepts(*now, wanted);
}

}  // namespace

Status Actuator::State::add_memory(std::map<std::string, Wanted>& wanted) {
  constexpr double intervals_to_wait = 8;  // as placement does
  node_patience.now_s = node_time_s();
  node_patience.wait_s = intervals_to_wait * config->interval_s;
  const auto wider = add_memory_nodes(config->roots, numa, knobs, wanted, node_patience);
  if (!wider) return wider.error();
  for (const auto& [service, why] : *wider) missing["memory_nodes." + service] = why;
  return done();
}

Result<std::optional<Prepared>> Actuator::State::change_of(const KnobSet& set, Knob& knob, const Wanted& values,
                                                           const ClockLimits& limits) const {
  const auto value = values.find(knob.aspect());
  if (value != values.end()) {
    if (is_held(limits, set.service, knob, value->second)) return std::optional<Prepared>();
    // Somebody else moved it since: follow_interrupts() says how often it is set again.
    const auto held = interrupts.held.find(set.service);
    if (held != interrupts.held.end() && held->second == value->second) return std::optional<Prepared>();
    return to_set(set.service, knob, value->second);
  }
  const std::string* found = keeps_group(knob.aspect()) ? nullptr : found_of(journal, set, knob);
  return found == nullptr ? std::optional<Prepared>() : to_release(set.service, knob, *found);
}

Result<std::vector<Prepared>> Actuator::State::prepare(const std::map<std::string, Wanted>& wanted) const {
  std::vector<Prepared> changes;
  const auto in_force = clocks_in_force(ClockKnob::Reach::Now);
  const ClockLimits limits = in_force ? *in_force : ClockLimits{};
  for (const KnobSet* each : all_knobs()) {
    const KnobSet& set = *each;
    const auto named = wanted.find(set.service);
    if (named == wanted.end()) continue;
    for (const auto& [aspect, knob] : set.knobs) {
      auto change = change_of(set, *knob, named->second, limits);
      if (!change) return change.error().wrap(set.service);
      if (*change) changes.push_back(std::move(**change));
    }
  }
  return changes;
}

// Without allocation, groups are there to monitor, whatever is decided.
bool Actuator::State::keeps_group(Aspect aspect) const {
  return (aspect == Aspect::Group || aspect == Aspect::Tasks) && resctrl && !resctrl->allocates();
}

// Groups are put in front, so that they are removed last, when the tasks of all have left them.
Status Actuator::State::note_originals(const std::map<std::string, Wanted>& wanted) {
  for (const Aspect aspect : aspects) {
    for (const KnobSet* each : all_knobs()) {
      const KnobSet& set = *each;
      Knob* knob = set.find(aspect);
      const auto values = wanted.find(set.service);
      if (knob == nullptr || values == wanted.end() || !values->second.contains(aspect)) continue;
      if (journal.find(set.name(*knob)) != nullptr) continue;
      const auto origin = knob->origin();
      if (!origin) return origin.error().wrap(set.service);
      const auto place = aspect == Aspect::Group ? journal.originals.begin() : journal.originals.end();
      journal.originals.insert(place, {set.name(*knob), *origin});
    }
  }
  return done();
}

Status Actuator::State::settle(const std::map<std::string, Wanted>& wanted) {
  const Journal before = journal;
  if (Status noted = note_originals(wanted); !noted) return noted;
  remember(wanted);
  if (journal.originals.size() == before.originals.size() && journal.applied == before.applied) return done();
  const Status saved = keep_journal();
  if (!saved) journal = before;
  return saved;
}

void Actuator::State::remember(const std::map<std::string, Wanted>& wanted) {
  // Pods that the kubelet has not told yet keep what they have: the decision is not about them.
  std::erase_if(journal.applied, [&](const Applied& one) { return !is_untold_pod(one); });
  note_interrupt_plan(wanted);
  for (const KnobSet* each : all_knobs()) {
    const KnobSet& set = *each;
    const auto named = wanted.find(set.service);
    if (named == wanted.end()) continue;
    const Wanted& values = named->second;
    if (is_interrupt_part(set.service)) {
      interrupts.held.erase(set.service);
      if (!values.empty()) interrupts.held[set.service] = values.at(Aspect::Cpus);
    }
    // What a part of the machine gets follows from the services.
    if (!is_machine_part(set.service)) {
      journal.applied.push_back({set.service, set.match, !set.absent, set.cgroup_inode, values, set.job});
    }
    std::erase_if(journal.originals, [&](const Saved& saved) {  // as found again, so it is nothing of ours any more
      if (saved.name.service != set.service) return false;
      const Knob* knob = set.find(saved.name.aspect);
      return knob != nullptr && !knob->refused() && !values.contains(saved.name.aspect) &&
             !keeps_group(saved.name.aspect) && same_knob(saved.name, set.name(*knob));
    });
  }
}

}  // namespace osml
