// Interrupts: no decision names them. They leave the CPUs that a decision gives to one latency-critical service alone.
#include "plan/interrupts.h"

#include <algorithm>
#include <cerrno>

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

}  // namespace

void Actuator::State::look_for_interrupts() {
  const double now_s = node_time_s();
  if (!config->levers.interrupts || now_s < interrupts.look_again_s) return;
  interrupts.look_again_s = now_s + look_pause_s;
  interrupts.found = find_interrupts(*config, interrupts.refused);
}

Status Actuator::State::add_interrupts(std::map<std::string, Wanted>& wanted) const {
  const CpuSet owned = interrupts.found.knobs.empty() ? CpuSet{} : owned_alone(users_of(wanted));
  const auto online = owned.empty() ? Result<CpuSet>(CpuSet{}) : online_cpus(config->roots);
  if (!online) return online.error();
  for (const KnobSet& set : interrupts.found.knobs) {
    Wanted& values = wanted[set.service];
    if (owned.empty()) continue;
    Knob& knob = *set.find(Aspect::Cpus);
    const Saved* saved = journal.find(set.name(knob));
    const auto snapshot = saved == nullptr ? knob.read() : Result<std::string>(saved->snapshot);
    const auto found = snapshot ? interrupt_cpus(*snapshot) : std::nullopt;
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
    const bool stays = set.find(Aspect::Cpus)->refused().has_value();
    if (interrupts.held.contains(set.service) && !stays) ++report.kept_away;
  }
  return report;
}

// Those that the kernel lets nobody move, those that have gone, and numbers that went to another device.
Status Actuator::State::leave_interrupts() {
  Interrupts& found = interrupts.found;
  std::erase_if(found.knobs, [&](const KnobSet& set) {
    const auto refused = set.find(Aspect::Cpus)->refused();
    if (!refused || refused->code == ENOSPC) return false;
    interrupts.refused[set.service] = found.names[set.service];
    interrupts.held.erase(set.service);
    ++found.fixed;
    return true;
  });
  const auto is_listed = [&](const std::string& part) {
    return std::any_of(found.knobs.begin(), found.knobs.end(), [&](const KnobSet& set) { return set.service == part; });
  };
  const std::size_t before = journal.originals.size();
  std::erase_if(journal.originals, [&](const Saved& saved) {
    const auto names = found.names.find(saved.name.service);
    return names != found.names.end() && !is_same_interrupt(saved.snapshot, names->second);
  });
  if (journal.originals.size() != before) {
    if (Status saved = keep_journal(); !saved) return saved;
  }
  const auto given =
      give_back([&](const KnobName& name) { return is_interrupt_part(name.service) && !is_listed(name.service); });
  return given ? given->back : Status(given.error());
}

// What somebody else wrote is set again once a minute at most: two programs that never give way only cost time.
Status Actuator::State::follow_interrupts() {
  if (!config->levers.interrupts) return done();
  Status first = leave_interrupts();
  auto wanted = applied_values();
  if (Status known = add_interrupts(wanted); !known) return known;
  note_interrupt_plan(wanted);
  const bool again = node_time_s() >= interrupts.set_again_s;
  std::size_t displaced = 0;
  std::size_t without_vector = 0;
  std::string example;
  for (const KnobSet& set : interrupts.found.knobs) {
    Knob& knob = *set.find(Aspect::Cpus);
    const Wanted& values = wanted.at(set.service);
    const auto cpus = values.find(Aspect::Cpus);
    Status followed = done();
    if (cpus == values.end()) {
      interrupts.held.erase(set.service);
      followed = release_part(set);
    } else if (const auto now = knob.read(); !now) {
      followed = now.error();
    } else {
      std::string& held = interrupts.held[set.service];
      const bool was_set = held == cpus->second;
      const bool differs = !knob.same(*now, cpus->second);
      if (differs && was_set && !knob.refused() && ++displaced == 1) example = set.service;
      if (differs && (again || !was_set)) followed = keep_part(set, cpus->second);
      if (const auto refused = knob.refused(); refused && refused->code == ENOSPC) ++without_vector;
      held = cpus->second;
    }
    if (first && !followed) first = followed.error().wrap(set.service);
  }
  if (again && displaced + without_vector > 0) {
    interrupts.set_again_s = node_time_s() + look_pause_s;
    interrupts.moved_by_others += displaced;
  }
  if (displaced > 0 && !again) {
    missing["irq.moved_by_others"] =
        "another program moved " + std::to_string(displaced) + " interrupts, such as " + example +
        ", and the agent sets them again once a minute" +
        (interrupts.found.balanced ? "; stop irqbalance, or set its IRQBALANCE_BANNED_CPULIST" : "");
  }
  if (without_vector > 0) {
    missing["irq.no_vector"] = "the kernel has no vector left on the CPUs for " + std::to_string(without_vector) +
                               " interrupts, so they stay where they were found";
  }
  return first;
}

}  // namespace osml
