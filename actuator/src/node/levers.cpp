#include "node/levers.h"

#include <algorithm>

#include "cpu/members.h"
#include "levers/io_max.h"
#include "levers/priority.h"

namespace osml {

namespace {

// `how`: what an operator has instead.
LeverState never_set(const std::string& name, const std::string& what, const std::string& how) {
  return {{name, false, "the agent never sets " + what, how}, false};
}

LeverState as_mechanism(const std::string& name, const std::string& known, const std::vector<Mechanism>& mechanisms) {
  const auto found =
      std::find_if(mechanisms.begin(), mechanisms.end(), [&](const Mechanism& one) { return one.name == known; });
  Mechanism copy = *found;
  copy.name = name;
  return {copy, false};
}

// `usable`: what the machine says, looked at only without services.
LeverState lever(const std::string& name, const std::string& key, bool on, Aspect aspect, const Mechanism& usable,
                 const std::vector<KnobSet>& knobs) {
  if (!on) {
    const std::string machine = usable.available ? "" : "; " + usable.reason;
    return {{name, false, key + " is off in the agent's configuration" + machine, "set " + key + ": on"}, false};
  }
  return {knobs.empty() ? usable : of_services(name, aspect, knobs), true};
}

Mechanism of_trial(const std::string& name, const Status& usable, const char* reason) {
  return usable ? Mechanism{name, true, reason, ""} : unavailable(name, usable.error().message);
}

// These two files are of cgroup v2 alone.
Mechanism of_cgroup2(const std::string& name, const std::string& controller, const Roots& roots) {
  const Mechanism found = of_machine(name, controller, roots);
  if (!found.available || found.reason == "cgroup2") return found;
  return unavailable(name, "the controller " + controller + " is mounted as cgroup v1, and the agent needs cgroup v2");
}

// Of jobs alone.
Mechanism idle_jobs(const Config& config, const std::vector<KnobSet>& knobs) {
  Mechanism found{"cpu.idle", true, "cgroup2", ""};
  for (const KnobSet& set : knobs) {
    if (!set.job || set.absent) continue;
    if (!set.is_idle_job()) return unavailable("cpu.idle", set.service + " has no cpu.weight of cgroup v2");
    const fs::path directory = cgroup2_directory(config.roots, set.match.cgroup.value_or(""));
    if (!osml::exists(directory / "cpu.idle")) found.reason = "cpu.weight 1: the kernel has no cpu.idle (Linux 5.15)";
  }
  return found;
}

LeverState idle(const Config& config, const std::vector<KnobSet>& knobs) {
  const Mechanism machine = of_cgroup2("cpu.idle", "cpu", config.roots);
  LeverState state = lever("cpu.idle", "levers.idle", config.levers.idle, Aspect::Weight, machine, knobs);
  if (state.switched_on && !knobs.empty()) state.mechanism = idle_jobs(config, knobs);
  return state;
}

// Of CPUs, whatever services there are.
Mechanism clock(const Clocks& clocks) {
  return clocks.range ? Mechanism{"cpufreq", true, clocks.how, ""} : unavailable("cpufreq", clocks.how);
}

// On a machine without several nodes nobody misses it.
LeverState memory_nodes(const Config& config, const std::vector<NumaNode>& numa, const std::vector<KnobSet>& knobs) {
  constexpr const char* name = "memory_nodes";
  if (numa.empty()) return {{name, false, "all CPUs of this machine have the same NUMA nodes of memory", ""}, false};
  const Mechanism machine = of_machine(name, "cpuset", config.roots);
  LeverState state = lever(name, "cpu.memory_nodes", config.cpu.follow_memory, Aspect::Nodes, machine, knobs);
  if (!state.switched_on) state.mechanism.how_to_enable = "set cpu.memory_nodes: follow";
  return state;
}

Mechanism disks(const Roots& roots) {
  const Mechanism controller = of_cgroup2("io.max", "io", roots);
  const auto found = limited_disks(roots);
  return controller.available && !found ? unavailable("io.max", found.error().message) : controller;
}

}  // namespace

std::vector<LeverState> probe_levers(const Config& config, const std::vector<Mechanism>& mechanisms,
                                     const std::vector<KnobSet>& knobs, const Clocks& clocks,
                                     const std::vector<NumaNode>& numa, const Interrupts& interrupts) {
  const LeversConfig& on = config.levers;
  const Mechanism priority = of_trial("sched_policy", PriorityKnob(config.roots, {}).probe(), "sched_setscheduler");
  return {idle(config, knobs),
          as_mechanism("cpu.weight", "cpu_weight", mechanisms),
          lever("sched_policy", "levers.realtime", on.realtime, Aspect::Priority, priority, knobs),
          lever("cpufreq", "levers.frequency", on.frequency, Aspect::Clock, clock(clocks), {}),
          lever("memory.high", "levers.memory", on.memory, Aspect::Memory,
                of_cgroup2("memory.high", "memory", config.roots), knobs),
          lever("io.max", "levers.disk", on.disk, Aspect::Disk, disks(config.roots), knobs),
          memory_nodes(config, numa, knobs),
          lever("irq", "levers.interrupts", on.interrupts, Aspect::Cpus, interrupts.mechanism, {}),
          never_set("network", "shares of the network", "by hand: tc qdisc"),
          as_mechanism("l3", "llc_ways", mechanisms)};
}

}  // namespace osml
