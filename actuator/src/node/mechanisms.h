// What this node can do, per mechanism, and why not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "node/knobs.h"
#include "resctrl/info.h"

namespace osml {

// One line of `osml-agent probe`.
struct Mechanism {
  std::string name;  // cpuset | affinity | cpu_quota | cpu_weight | llc_ways | mba | mba_regulator | llc_monitoring
                     // cache_domains; and those of levers.h
  bool available = false;
  std::string reason;         // how it is reached ("cgroup2"), or why it is not
  std::string how_to_enable;  // empty where available or where nothing helps
};

// Reasons end in "; run: COMMAND" where a command helps.
Mechanism unavailable(const std::string& name, const std::string& why);
// Without services: does the cgroup tree as a whole have the controller?
Mechanism of_machine(const std::string& name, const std::string& controller, const Roots& roots);
// With services: every service that is there has it.
Mechanism of_services(const std::string& name, Aspect aspect, const std::vector<KnobSet>& knobs);

// With services: available = every service that is there has it. Without: what the machine offers in general.
std::vector<Mechanism> probe_mechanisms(const Config& config, const Result<resctrl::Info>& info,
                                        const std::vector<KnobSet>& knobs);
// Placing services in cache domains; nothing where there are not several.
std::optional<Mechanism> probe_placement(const Config& config, const Platform& platform);

}  // namespace osml
