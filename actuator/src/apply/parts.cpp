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
    if (!is_untold_pod(applied)) continue;
    users.push_back(user_of(applied.values));
    users.back().job = applied.job;
  }
  return users;
}

std::map<std::string, Wanted> Actuator::State::applied_values() const {
  std::map<std::string, Wanted> values;
  for (const Applied& applied : journal.applied) values[applied.service] = applied.values;
  return values;
}

// What was found is in the journal before anything is written.
Status Actuator::State::set_parts(const std::vector<PartValue>& parts) {
  Status first = done();
  std::vector<const PartValue*> noted;
  const std::size_t known = journal.originals.size();
  for (const PartValue& one : parts) {
    Status original = note_originals({{one.part->service, {{one.part->knobs.begin()->first, one.value}}}});
    if (original) noted.push_back(&one);
    if (first && !original) first = original;
  }
  if (journal.originals.size() != known) {
    if (Status saved = keep_journal(); !saved) {
      // What no journal on the disk knows is not written, neither now nor the next time.
      journal.originals.erase(journal.originals.begin() + static_cast<std::ptrdiff_t>(known), journal.originals.end());
      return saved;
    }
  }
  for (const PartValue* one : noted) {
    const Status written = one->part->knobs.begin()->second->reconcile(one->value);
    if (first && !written) first = written.error().wrap(one->part->service);
  }
  return first;
}

// A part that is offline keeps its entry until it is back.
Status Actuator::State::release_parts(const std::vector<const KnobSet*>& parts) {
  Status first = done();
  const std::size_t known = journal.originals.size();
  for (const KnobSet* part : parts) {
    Knob& knob = *part->knobs.begin()->second;
    const KnobName name = part->name(knob);
    const Saved* saved = journal.find(name);
    if (saved == nullptr) continue;
    const Status back = put_back(knob, saved->snapshot);
    if (back) std::erase_if(journal.originals, [&](const Saved& one) { return same_knob(one.name, name); });
    if (first && !back && back.error().kind != ErrorKind::Busy) first = back.error().wrap(part->service);
  }
  if (journal.originals.size() == known) return first;
  Status saved = keep_journal();
  return first ? saved : first;
}

}  // namespace osml
