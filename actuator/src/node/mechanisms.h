// What this node can do, per mechanism, and why not.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "node/knobs.h"
#include "resctrl/info.h"

namespace osml {

// One line of `osml-agent probe`.
struct Mechanism {
  std::string name;  // cpuset | affinity | cpu_quota | cpu_weight | llc_ways | mba | mba_regulator | llc_monitoring
  bool available = false;
  std::string reason;         // how it is reached ("cgroup2"), or why it is not
  std::string how_to_enable;  // empty where available or where nothing helps
};

// With services: available = every service that is there has it. Without: what the machine offers in general.
std::vector<Mechanism> probe_mechanisms(const Config& config, const Result<resctrl::Info>& info,
                                        const std::vector<KnobSet>& knobs);

}  // namespace osml
