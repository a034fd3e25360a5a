// What happens between decisions: threads are born, CPUs and cache domains come and go.
#include "apply/node_state.h"
#include "resctrl/group.h"

namespace osml {

namespace {

// Keeps the first error and goes on: one service's trouble is not the others'.
void note(Status& first, const Status& status) {
  if (first && !status) first = status;
}

}  // namespace

// A cache domain that was offline comes back with the full mask for everybody, and v1 cpusets forget CPUs.
Status Actuator::State::reapply() {
  Status first = done();
  const auto tree = lock_resctrl();
  if (!tree) return tree.error();
  for (const KnobSet& set : knobs) {
    for (const auto& [aspect, value] : applied[set.service]) {
      Knob* knob = set.find(aspect);
      if (knob == nullptr) continue;
      const auto now = knob->read();
      if (now && !knob->same(*now, value)) note(first, knob->write(value));
    }
  }
  return first;
}

Status Actuator::State::follow_tasks() {
  Status first = done();
  for (const KnobSet& set : knobs) {
    for (const auto& [aspect, value] : applied[set.service]) {
      if (Knob* knob = set.find(aspect)) note(first, knob->reconcile(value));
    }
  }
  return first;
}

// Where the machine monitors but does not allocate no decision ever makes a group, so they are made here: without
// them nobody could tell the services' cache use apart. A machine out of RMIDs goes without.
Status Actuator::State::monitor_only_groups() {
  if (!resctrl || !resctrl->monitor || resctrl->allocates()) return done();
  Status first = done();
  for (const KnobSet& set : knobs) {
    Knob* group = set.find(Aspect::Group);
    const auto now = group == nullptr ? Result<std::string>(std::string()) : group->read();
    if (group == nullptr || !now) continue;
    if (!journal.knows(set.service, Aspect::Group)) {
      for (const Aspect aspect : {Aspect::Group, Aspect::Tasks}) {
        const auto origin = set.find(aspect)->origin();
        if (!origin) return origin.error();
        journal.originals.push_back({{set.service, aspect, "resctrl", set.match}, *origin});
      }
      if (Status saved = save_journal(journal_path(), journal); !saved) return saved;
    }
    const Status made = now->empty() ? group->write("present") : done();
    note(first, made);
    if (made) applied[set.service][Aspect::Tasks] = osml::resctrl::group_name(set.service);
  }
  return first;
}

}  // namespace osml
