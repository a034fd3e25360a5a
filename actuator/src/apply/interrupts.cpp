// Interrupts: no decision names them. They leave the CPUs that a decision gives to one latency-critical service alone.
#include "plan/interrupts.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "apply/node_state.h"
#include "base/clock.h"
#include "node/platform.h"

namespace osml {

namespace {

constexpr double look_pause_s = 60;  // irqbalance moves interrupts every ten seconds

// "3 on CPUs 4-7, 1 on CPUs 12"
std::string plan_in_words(const std::map<std::string, std::size_t>& numbers) {
  std::string words;
  for (const auto& [cpus, number] : numbers) {
    words += (words.empty() ? "" : ", ") + std::to_string(number) + " on CPUs " + cpus;
  }
  return words;
}

std::vector<KnobSet>::iterator find_part(Interrupts& found, const std::string& part) {
  return std::find_if(found.knobs.begin(), found.knobs.end(), [&](const KnobSet& set) { return set.service == part; });
}

}  // namespace

void Actuator::State::look_for_interrupts() {
  Interrupts& found = interrupts.found;
  std::erase_if(found.knobs, [&](const KnobSet& set) {
    const auto refused = set.find(Aspect::Cpus)->refused();
    if (!refused || may_move_later(*refused)) return false;
    interrupts.refused[set.service] = found.names[set.service];
    interrupts.held.erase(set.service);
    ++found.fixed;
    return true;
  });
  const double now_s = node_time_s();
  if (!config->levers.interrupts || now_s < interrupts.look_again_s) return;
  interrupts.look_again_s = now_s + look_pause_s;
  Interrupts now = find_interrupts(*config, interrupts.refused);
  for (KnobSet& set : now.knobs) {
    const auto known = find_part(found, set.service);
    // It knows that there was no vector for it.
    if (known != found.knobs.end() && found.names[set.service] == now.names[set.service]) set = std::move(*known);
  }
  found = std::move(now);
  std::erase_if(interrupts.held, [&](const auto& one) { return !found.names.contains(one.first); });
}

Status Actuator::State::add_interrupts(std::map<std::string, Wanted>& wanted) const {
  if (interrupts.found.knobs.empty()) return done();
  const CpuSet owned = owned_alone(users_of(wanted));
  const auto online = online_cpus(config->roots);
  if (!online) return online.error();
  // Of those that the agent has not moved, what the last look saw: to read hundreds of files each interval costs much.
  std::map<std::string, std::string> found_on = interrupts.found.cpus;
  for (const Saved& saved : journal.originals) {
    if (is_interrupt_part(saved.name.service)) found_on[saved.name.service] = saved.snapshot;
  }
  for (const KnobSet& set : interrupts.found.knobs) {
    Wanted& values = wanted[set.service];
    const auto snapshot = found_on.find(set.service);
    const auto found = snapshot == found_on.end() ? std::nullopt : interrupt_cpus(snapshot->second);
    const auto cpus = found ? kept_away(*found, owned, topology.cpus, *online) : std::nullopt;
    if (cpus) values[Aspect::Cpus] = format_cpulist(*cpus);
  }
  return done();
}

void Actuator::State::note_interrupt_plan(const std::map<std::string, Wanted>& wanted) {
  std::map<std::string, std::size_t> numbers;
  for (const KnobSet& set : interrupts.found.knobs) {
    const auto& values = wanted.at(set.service);
    if (const auto cpus = values.find(Aspect::Cpus); cpus != values.end()) ++numbers[cpus->second];
  }
  interrupts.plan = plan_in_words(numbers);
}

InterruptReport Actuator::State::interrupt_report() const {
  InterruptReport report{0, interrupts.found.fixed, interrupts.moved_by_others, interrupts.plan};
  for (const KnobSet& set : interrupts.found.knobs) {
    const bool stays = set.find(Aspect::Cpus)->refused() || interrupts.displaced.contains(set.service);
    if (interrupts.held.contains(set.service) && !stays) ++report.kept_away;
  }
  return report;
}

// A device may get another name, as a network interface does. Its interrupt is where the agent put it all the same.
bool Actuator::State::is_where_put(const std::string& part) {
  const auto held = interrupts.held.find(part);
  const auto set = find_part(interrupts.found, part);
  if (held == interrupts.held.end() || set == interrupts.found.knobs.end()) return false;
  const Knob& knob = *set->find(Aspect::Cpus);
  const auto now = set->find(Aspect::Cpus)->read();
  return now && knob.same(*now, held->second);
}

// Those that the kernel lets nobody move, those that have gone, and numbers that went to another device.
Status Actuator::State::leave_interrupts() {
  Interrupts& found = interrupts.found;
  if (!found.mechanism.available) return done();  // they may be there again in a minute
  bool changed = false;
  std::set<std::string> of_others;
  for (Saved& saved : journal.originals) {
    const std::string& part = saved.name.service;
    const auto names = found.names.find(part);
    if (names == found.names.end() || is_same_interrupt(saved.snapshot, names->second)) continue;
    // The names are up to a minute old, the snapshot may be younger.
    const auto handlers = interrupt_handlers(config->roots, part);
    if (is_same_interrupt(saved.snapshot, handlers)) continue;
    changed = true;
    if (is_where_put(part)) {
      saved.snapshot = renamed(saved.snapshot, handlers);
    } else {
      of_others.insert(part);
      interrupts.held.erase(part);
    }
  }
  std::erase_if(journal.originals, [&](const Saved& saved) { return of_others.contains(saved.name.service); });
  if (changed) {
    if (Status saved = keep_journal(); !saved) return saved;
  }
  const auto given = give_back([&](const KnobName& name) {
    return is_interrupt_part(name.service) && find_part(found, name.service) == found.knobs.end();
  });
  return given ? given->back : Status(given.error());
}

bool Actuator::State::is_of_same_device(const KnobSet& set) const {
  const Saved* saved = journal.find(set.name(*set.find(Aspect::Cpus)));
  return saved == nullptr || is_same_interrupt(saved->snapshot, interrupt_handlers(config->roots, set.service));
}

// What somebody else moved to a CPU of a service is moved back once a minute at most: two programs that never give way
// only cost time. What was moved to other CPUs stays there.
Status Actuator::State::follow_interrupts() {
  if (!config->levers.interrupts) return done();
  Status first = leave_interrupts();
  auto wanted = applied_values();
  if (Status known = add_interrupts(wanted); !known) return known;
  note_interrupt_plan(wanted);
  const CpuSet owned = owned_alone(users_of(wanted));
  const bool again = node_time_s() >= interrupts.set_again_s;
  std::vector<PartValue> setting;
  std::vector<const KnobSet*> releasing;
  std::vector<std::string> moved;
  for (const KnobSet& set : interrupts.found.knobs) {
    Knob& knob = *set.find(Aspect::Cpus);
    const Wanted& values = wanted.at(set.service);
    if (values.empty()) {
      interrupts.held.erase(set.service);
      releasing.push_back(&set);
      continue;
    }
    const std::string& cpus = values.at(Aspect::Cpus);
    const bool was_set = std::exchange(interrupts.held[set.service], cpus) == cpus;
    const auto now = knob.read();
    if (!now && first) first = now.error().wrap(set.service);
    if (!now || knob.same(*now, cpus)) continue;
    const auto where = parse_cpulist(*now);
    if (was_set && where && intersect(*where, owned).empty()) continue;
    if (was_set && !is_of_same_device(set)) {
      interrupts.look_again_s = 0;  // the number is another device's by now
      continue;
    }
    if (was_set && !knob.refused()) moved.push_back(set.service);
    if (again || !was_set) setting.push_back({&set, cpus});
  }
  const Status written = set_parts(setting);
  for (const PartValue& one : setting) {
    Knob& knob = *one.part->find(Aspect::Cpus);
    const auto now = written ? Result<std::string>(one.value) : knob.read();
    if (!now || !knob.accepts(*now, one.value)) interrupts.held.erase(one.part->service);
  }
  interrupts.displaced.clear();
  if (!again || !written) interrupts.displaced.insert(moved.begin(), moved.end());
  if (again && written && !setting.empty()) {
    interrupts.set_again_s = node_time_s() + look_pause_s;
    interrupts.moved_by_others += moved.size();
  }
  tell_of_interrupts(again ? std::vector<std::string>() : moved);
  const Status released = release_parts(releasing);
  if (first && !written) return written;
  return first ? released : first;
}

void Actuator::State::tell_of_interrupts(const std::vector<std::string>& moved) {
  if (!moved.empty()) {
    missing["irq.moved_by_others"] = "another program, or their driver, moved interrupts to CPUs of services (" +
                                     std::to_string(moved.size()) + ", such as " + moved.front() +
                                     "), and the agent moves them back once a minute" +
                                     (interrupts.found.balanced ? "; " + std::string(about_irqbalance) : "");
  }
  const auto without_vector =
      std::count_if(interrupts.found.knobs.begin(), interrupts.found.knobs.end(), [this](const KnobSet& set) {
        const auto refused = set.find(Aspect::Cpus)->refused();
        return refused && may_move_later(*refused) && interrupts.held.contains(set.service);
      });
  if (without_vector > 0) {
    missing["irq.no_vector"] = "other CPUs take no more interrupts at the moment (" + std::to_string(without_vector) +
                               "), so these stay as found, and the agent tries again once a minute";
  }
}

}  // namespace osml
