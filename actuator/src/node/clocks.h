// The clock domains of this node: their knobs, and what decisions may ask of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "domain/types.h"
#include "levers/cpufreq.h"
#include "node/knobs.h"

namespace osml {

struct Clocks {
  std::vector<ClockDomain> domains;
  std::vector<KnobSet> knobs;      // of each domain, in the same order
  std::optional<KnobRange> range;  // MHz that each domain can be limited to, in steps that each driver knows
  std::optional<double> nominal_ghz;
  std::string how;  // "intel_pstate, 8 domains", or why the clock cannot be limited
};

// What was found at a knob before the agent set it; null = it did not.
using Found = std::function<const std::string*(const KnobName&)>;

// Some seven files a domain, so it is read once, not every tick. `usable`: CPUs that may be handed out.
Clocks find_clocks(const Config& config, const CpuSet& usable, const Found& found);

}  // namespace osml
