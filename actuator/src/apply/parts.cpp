// Parts of the machine that belong to no service: clock domains and interrupts. What they get follows from the CPUs of
// the services.
#include "apply/node_state.h"
#include "apply/restore.h"
#include "base/number.h"

namespace osml {

namespace {

CpuUser user_of(const Wanted& values) {
  CpuUser user;
  for (const auto& [aspect, value] : values) {
    if (aspect == Aspect::Clock) user.mhz = parse_unsigned(value);
    if (aspect != Aspect::Cpus) continue;
    if (const auto cpus = parse_cpulist(value)) user.cpus = *cpus;
  }
  return user;
}

}  // namespace

std::vector<const KnobSet*> Actuator::State::all_knobs() const {
  std::vector<const KnobSet*> all;
  for (const std::vector<KnobSet>* some : {&knobs, &clocks.knobs, &interrupts.found.knobs}) {
    for (const KnobSet& set : *some) all.push_back(&set);
  }
  return all;
}

std::vector<CpuUser> Actuator::State::users_of(const std::map<std::string, Wanted>& wanted) const {
  std::vector<CpuUser> users;
  for (const KnobSet& set : knobs) {
    if (set.absent) continue;
    const auto named = wanted.find(set.service);
    users.push_back(user_of(named == wanted.end() ? Wanted() : named->second));
    users.back().job = set.job;
  }
  for (const Applied& applied : journal.applied) {
    if (is_untold_pod(applied)) users.push_back(user_of(applied.values));
  }
  return users;
}

std::map<std::string, Wanted> Actuator::State::applied_values() const {
  std::map<std::string, Wanted> values;
  for (const Applied& applied : journal.applied) values[applied.service] = applied.values;
  return values;
}

// What was found is in the journal before anything is written.
Status Actuator::State::keep_part(const KnobSet& set, const std::string& value) {
  const auto& [aspect, knob] = *set.knobs.begin();
  if (journal.find(set.name(*knob)) == nullptr) {
    if (Status noted = note_originals({{set.service, {{aspect, value}}}}); !noted) return noted;
    if (Status saved = keep_journal(); !saved) return saved;
  }
  return knob->reconcile(value);
}

// A part that is offline keeps its entry until it is back.
Status Actuator::State::release_part(const KnobSet& set) {
  Knob& knob = *set.knobs.begin()->second;
  const KnobName name = set.name(knob);
  const Saved* saved = journal.find(name);
  if (saved == nullptr) return done();
  const Status back = put_back(knob, saved->snapshot);
  if (!back) return back.error().kind == ErrorKind::Busy ? done() : back;
  std::erase_if(journal.originals, [&](const Saved& one) { return same_knob(one.name, name); });
  return keep_journal();
}

}  // namespace osml
