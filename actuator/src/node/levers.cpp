#include "node/levers.h"

#include <algorithm>

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

Mechanism disks(const Roots& roots) {
  const Mechanism controller = of_cgroup2("io.max", "io", roots);
  const auto found = limited_disks(roots);
  return controller.available && !found ? unavailable("io.max", found.error().message) : controller;
}

}  // namespace

std::vector<LeverState> probe_levers(const Config& config, const std::vector<Mechanism>& mechanisms,
                                     const std::vector<KnobSet>& knobs) {
  const LeversConfig& on = config.levers;
  const Mechanism priority = of_trial("sched_policy", PriorityKnob(config.roots, {}).probe(), "sched_setscheduler");
  return {never_set("cpu.idle", "cpu.idle; jobs have cpu.weight", "by hand: echo 1 > cpu.idle in the cgroup of a job"),
          as_mechanism("cpu.weight", "cpu_weight", mechanisms),
          lever("sched_policy", "levers.realtime", on.realtime, Aspect::Priority, priority, knobs),
          never_set("cpufreq", "the clock: it belongs to CPUs, which services may share",
                    "by hand: cpupower frequency-set --max FREQUENCY"),
          lever("memory.high", "levers.memory", on.memory, Aspect::Memory,
                of_cgroup2("memory.high", "memory", config.roots), knobs),
          lever("io.max", "levers.disk", on.disk, Aspect::Disk, disks(config.roots), knobs),
          never_set("network", "shares of the network", "by hand: tc qdisc"),
          as_mechanism("l3", "llc_ways", mechanisms)};
}

}  // namespace osml
