// The levers beside CPUs and memory bandwidth, by the words of `osml-agent probe`: what of them this node has, and
// which the agent never sets. Policies know all of them but irq and memory_nodes.
#pragma once

#include <vector>

#include "levers/numa.h"
#include "node/clocks.h"
#include "node/interrupts.h"
#include "node/mechanisms.h"

namespace osml {

struct LeverState {
  Mechanism mechanism;
  bool switched_on = false;  // by the operator; then its absence is news
};

// cpu.idle | cpu.weight | sched_policy | cpufreq | memory.high | io.max | memory_nodes | irq | network | l3.
// `mechanisms`: what probe_mechanisms() found; cpu.weight and l3 are as cpu_weight and llc_ways there, which also has
// mba.
std::vector<LeverState> probe_levers(const Config& config, const std::vector<Mechanism>& mechanisms,
                                     const std::vector<KnobSet>& knobs, const Clocks& clocks,
                                     const std::vector<NumaNode>& numa, const Interrupts& interrupts);

}  // namespace osml
