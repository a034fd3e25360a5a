#include "node/interrupts.h"

#include <algorithm>

namespace osml {

namespace {

constexpr const char* irq_lever = "irq";

// "nvme*" stands for each name that begins so.
bool is_chosen(const std::vector<std::string>& wanted, const std::vector<std::string>& names) {
  const auto fits = [&](const std::string& name) {
    return std::any_of(wanted.begin(), wanted.end(), [&](const std::string& one) {
      return one.ends_with('*') ? name.starts_with(one.substr(0, one.size() - 1)) : name == one;
    });
  };
  return wanted.empty() || std::any_of(names.begin(), names.end(), fits);
}

bool irqbalance_runs(const fs::path& proc) {
  const auto processes = list_subdirectories(proc);
  return processes && std::any_of(processes->begin(), processes->end(), [&](const std::string& pid) {
           if (pid.front() < '0' || pid.front() > '9') return false;
           const auto name = read_text(proc / pid / "comm");
           return name && trim(*name) == "irqbalance";
         });
}

std::string some_of(const std::vector<const Interrupt*>& some) {
  constexpr std::size_t most = 4;
  std::string words;
  for (std::size_t i = 0; i < std::min(some.size(), most); ++i) {
    words += (i == 0 ? "" : ", ") + some[i]->part + " (" + some[i]->names.front() + ")";
  }
  return some.size() > most ? words + " and " + std::to_string(some.size() - most) + " more" : words;
}

Mechanism interrupt_mechanism(const Config& config, const Interrupts& found,
                              const std::vector<const Interrupt*>& fixed) {
  const std::string directory = interrupt_directory(config.roots).string();
  if (found.knobs.empty() && fixed.empty()) {
    return unavailable(irq_lever,
                       config.levers.interrupt_names.empty()
                           ? "no device uses an interrupt in " + directory
                           : "levers.interrupt_names names no interrupt in " + directory + " that is in use");
  }
  const std::string stay = fixed.empty() ? "" : "the kernel lets nobody move " + some_of(fixed);
  if (found.knobs.empty()) return unavailable(irq_lever, stay);
  Status usable = done();
  for (const KnobSet& set : found.knobs) {
    usable = set.find(Aspect::Cpus)->probe();
    if (usable) break;  // one may have gone since
  }
  if (!usable) return unavailable(irq_lever, usable.error().message);
  const std::size_t number = found.knobs.size();
  Mechanism mechanism{irq_lever, true, std::to_string(number) + (number == 1 ? " interrupt" : " interrupts"), ""};
  if (!stay.empty()) mechanism.reason += "; " + stay;
  if (found.balanced) {
    mechanism.reason += "; irqbalance runs and moves them as well";
    mechanism.how_to_enable = about_irqbalance;
  }
  return mechanism;
}

}  // namespace

Interrupts find_interrupts(const Config& config, const InterruptNames& refused) {
  Interrupts found;
  const auto all = list_interrupts(config.roots);
  if (!all) {
    found.mechanism = unavailable(irq_lever, all.error().message);
    return found;
  }
  std::vector<const Interrupt*> fixed;
  for (const Interrupt& one : *all) {
    if (!is_chosen(config.levers.interrupt_names, one.names)) continue;
    const auto known = refused.find(one.part);
    if (one.fixed || (known != refused.end() && known->second == one.names)) {
      fixed.push_back(&one);
      continue;
    }
    KnobSet& set = found.knobs.emplace_back();
    set.service = one.part;
    auto knob = std::make_unique<InterruptKnob>(config.roots, one.part);
    if (auto now = knob->read()) found.cpus[one.part] = std::move(*now);
    set.knobs[Aspect::Cpus] = std::move(knob);
    found.names[one.part] = one.names;
  }
  found.fixed = fixed.size();
  found.balanced = irqbalance_runs(config.roots.proc);
  found.mechanism = interrupt_mechanism(config, found, fixed);
  if (!found.mechanism.available) found.knobs.clear();
  return found;
}

}  // namespace osml
