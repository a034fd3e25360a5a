// The interrupts of this node: their knobs, and what an operator should know of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "levers/irq.h"
#include "node/knobs.h"
#include "node/mechanisms.h"

namespace osml {

// Part -> who handles it.
using InterruptNames = std::map<std::string, std::vector<std::string>>;

struct Interrupts {
  std::vector<KnobSet> knobs;               // of those that the agent may move
  InterruptNames names;                     // of the same
  std::map<std::string, std::string> cpus;  // where each of them was at this look
  std::size_t fixed = 0;                    // that the agent should move and nobody can
  bool balanced = false;                    // irqbalance runs, which moves them too
  Mechanism mechanism{"irq", true, "", ""};
};

inline constexpr const char* about_irqbalance =
    "stop irqbalance, or set its IRQBALANCE_BANNED_CPULIST to the CPUs of the services";

// What the agent does with them, in numbers.
struct InterruptReport {
  std::size_t kept_away = 0;          // from the CPUs of services
  std::size_t fixed = 0;              // cannot be moved
  std::uint64_t moved_by_others = 0;  // times, since the start of the agent
  std::string plan;                   // of the last decision: "3 on CPUs 4-7"; empty = all stay as found
};

// `refused`: the kernel refused to move these when the agent tried. Several files an interrupt and one a process, so it
// is read once a minute, not every tick.
Interrupts find_interrupts(const Config& config, const InterruptNames& refused);

}  // namespace osml
