// The domain's Platform from what the machine says: sysfs for CPUs, siblings and caches, resctrl for ways and
// bandwidth, the configuration for what neither tells.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/cpuset.h"
#include "config/config.h"
#include "domain/types.h"
#include "node/knobs.h"
#include "resctrl/info.h"

namespace osml {

Result<CpuSet> online_cpus(const Roots& roots);
// CPUs that may be handed out: online and, where the operator names some, among those. Input where nothing is left.
Result<CpuSet> usable_cpus(const Config& config);

struct Cache {
  std::string cpus;
  double size_mib = 0;
};

// What of the platform only changes when CPUs come or go. Some five files a CPU, so it is read once, not every tick.
struct Topology {
  CpuSet cpus;
  std::vector<std::vector<unsigned>> siblings;
  std::map<unsigned, Cache> caches;  // level 3, by id
  std::string model;
};

Topology read_topology(const Config& config, const CpuSet& cpus);

// What all services have together of memory and disk, where the operator's levers and all knobs are there; real-time
// priority likewise.
void add_levers(Platform& platform, const Config& config, const std::vector<KnobSet>& knobs);

// `quota` says whether every service has a CPU quota knob: with fewer CPUs than managed services and quota, CPUs are
// handed out in slices of a tenth (core_quantum 0.1), unless the operator sets cpu.quantum.
Platform make_platform(const Config& config, const Topology& topology, const std::optional<resctrl::Info>& info,
                       bool quota);

}  // namespace osml
