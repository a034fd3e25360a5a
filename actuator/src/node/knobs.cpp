#include "node/knobs.h"

#include <set>

#include "bandwidth/regulator_knob.h"
#include "cpu/affinity.h"
#include "cpu/cgroup1.h"
#include "cpu/cgroup2.h"
#include "levers/cpu_idle.h"
#include "levers/cpufreq.h"
#include "levers/io_max.h"
#include "levers/irq.h"
#include "levers/memory_high.h"
#include "levers/memory_nodes.h"
#include "levers/priority.h"
#include "resctrl/group.h"
#include "resctrl/knobs.h"

namespace osml {

namespace {

std::unique_ptr<Knob> make_resctrl_knob(const KnobName& name, const Roots& roots, const resctrl::Info& info) {
  resctrl::Site site{roots, resctrl::group_path(roots.resctrl, name.service, info.allocates()), name.match, info};
  switch (name.aspect) {
    case Aspect::Group:
      return std::make_unique<resctrl::GroupKnob>(std::move(site));
    case Aspect::Ways:
      return std::make_unique<resctrl::WaysKnob>(std::move(site));
    case Aspect::Mba:
      return std::make_unique<resctrl::MbaKnob>(std::move(site));
    case Aspect::Tasks:
      return std::make_unique<resctrl::TasksKnob>(std::move(site));
    default:
      return nullptr;
  }
}

std::unique_ptr<Knob> make_cgroup2_knob(const KnobName& name, const Roots& roots) {
  switch (name.aspect) {
    case Aspect::Cpus:
      return std::make_unique<Cgroup2Cpuset>(roots, name.match);
    case Aspect::Quota:
      return std::make_unique<Cgroup2Quota>(roots, name.match);
    case Aspect::Weight:
      return std::make_unique<Cgroup2Weight>(roots, name.match);
    case Aspect::Memory:
      return std::make_unique<MemoryHigh>(roots, name.match);
    case Aspect::Disk:
      return std::make_unique<IoMax>(roots, name.match);
    case Aspect::Nodes:
      return std::make_unique<Cgroup2Mems>(roots, name.match);
    default:
      return nullptr;
  }
}

std::unique_ptr<Knob> make_cgroup1_knob(const KnobName& name, const Roots& roots) {
  switch (name.aspect) {
    case Aspect::Cpus:
      return std::make_unique<Cgroup1Cpuset>(roots, name.match);
    case Aspect::Quota:
      return std::make_unique<Cgroup1Quota>(roots, name.match);
    case Aspect::Weight:
      return std::make_unique<Cgroup1Weight>(roots, name.match);
    case Aspect::Nodes:
      return std::make_unique<Cgroup1Mems>(roots, name.match);
    default:
      return nullptr;
  }
}

// The first backend that works; the reasons of those before it are kept where none does.
void choose(KnobSet& set, Aspect aspect, const std::vector<std::string>& backends, const Roots& roots,
            const std::optional<resctrl::Info>& info) {
  std::string reasons;
  std::set<std::string> different;
  for (const std::string& backend : backends) {
    auto knob = make_knob({set.service, aspect, backend, set.match, set.cgroup_inode}, roots, info);
    if (!knob) continue;
    const Status usable = knob->probe();
    if (usable) {
      if (backend == "affinity" && set.match.cgroup && backends.size() > 1) set.weak_cpus = reasons;
      set.knobs[aspect] = std::move(knob);
      return;
    }
    different.insert(usable.error().message);
    reasons += (reasons.empty() ? "" : "; ") + backend + ": " + usable.error().message;
  }
  // What is the same for all of them is said once: it lies with the service.
  set.missing[aspect] = backends.size() > 1 && different.size() == 1 ? *different.begin() : reasons;
}

struct Lever {
  Aspect aspect;
  bool on;
  const char* key;
  const char* backend;
};

std::vector<Lever> levers_of(const LeversConfig& levers) {
  return {{Aspect::Memory, levers.memory, "levers.memory", "cgroup2"},
          {Aspect::Disk, levers.disk, "levers.disk", "cgroup2"},
          {Aspect::Priority, levers.realtime, "levers.realtime", "sched"}};
}

// What the operator has not switched on is missing, with how to switch it on.
void choose_levers(KnobSet& set, const Config& config, const std::optional<resctrl::Info>& info) {
  set.slice_ms = round_robin_slice_ms(config.roots);
  for (const Lever& lever : levers_of(config.levers)) {
    if (lever.on) {
      choose(set, lever.aspect, {lever.backend}, config.roots, info);
    } else {
      set.missing[lever.aspect] =
          std::string(lever.key) + " is off in the agent's configuration; set " + lever.key + ": on";
    }
  }
}

// Cpusets have CPUs and memory. Who keeps the agent away from them keeps it away from both.
void choose_nodes(KnobSet& set, std::vector<std::string> backends, const Config& config,
                  const std::optional<resctrl::Info>& info) {
  if (!config.cpu.follow_memory) {
    set.missing[Aspect::Nodes] = "cpu.memory_nodes is off in the agent's configuration; set cpu.memory_nodes: follow";
    return;
  }
  std::erase(backends, "affinity");
  choose(set, Aspect::Nodes, backends, config.roots, info);
  if (backends.empty()) set.missing[Aspect::Nodes] = "cpu.backend: affinity leaves cpusets alone";
}

}  // namespace

bool is_machine_part(std::string_view name) { return is_clock_part(name) || is_interrupt_part(name); }

bool same_knob(const KnobName& a, const KnobName& b) {
  if (a.service != b.service || a.aspect != b.aspect || a.backend != b.backend) return false;
  if (a.backend == "resctrl" && a.aspect != Aspect::Tasks) return true;
  return a.match == b.match && (a.cgroup_inode == b.cgroup_inode || !a.cgroup_inode || !b.cgroup_inode);
}

KnobName KnobSet::name(const Knob& knob) const {
  return {service, knob.aspect(), std::string(knob.backend()), match, cgroup_inode};
}

Knob* KnobSet::find(Aspect aspect) const {
  const auto found = knobs.find(aspect);
  return found == knobs.end() ? nullptr : found->second.get();
}

std::unique_ptr<Knob> make_knob(const KnobName& name, const Roots& roots, const std::optional<resctrl::Info>& info) {
  if (name.backend == "resctrl") return make_resctrl_knob(name, roots, info.value_or(resctrl::Info{}));
  if (name.backend == "cgroup2") return make_cgroup2_knob(name, roots);
  if (name.backend == "cgroup1") return make_cgroup1_knob(name, roots);
  if (name.backend == "cgroup2-idle" && name.aspect == Aspect::Weight) {
    return std::make_unique<CpuIdle>(roots, name.match);
  }
  if (name.backend == "regulator" && name.aspect == Aspect::Mba) {
    return std::make_unique<RegulatorKnob>(roots, name.service, name.match, info);
  }
  if (name.backend == "sched" && name.aspect == Aspect::Priority) {
    return std::make_unique<PriorityKnob>(roots, name.match);
  }
  if (name.backend == "cpufreq" && name.aspect == Aspect::Clock && is_clock_part(name.service)) {
    return std::make_unique<ClockKnob>(roots, name.service);
  }
  if (name.backend == "irq" && name.aspect == Aspect::Cpus && is_interrupt_part(name.service)) {
    return std::make_unique<InterruptKnob>(roots, name.service);
  }
  if (name.backend == "affinity" && name.aspect == Aspect::Cpus) {
    return std::make_unique<AffinityKnob>(roots, name.match);
  }
  return nullptr;
}

bool KnobSet::is_idle_job() const {
  const Knob* weight = find(Aspect::Weight);
  return weight != nullptr && weight->backend() == "cgroup2-idle";
}

KnobSet choose_knobs(const Place& place, bool job, const Config& config, const Result<resctrl::Info>& resctrl) {
  KnobSet set;
  set.service = place.service;
  set.match = place.match;
  set.job = job;
  set.absent = place.absent;
  set.looked_at = place.looked_at;
  set.cgroup_inode = place.cgroup_inode;
  const std::optional<resctrl::Info> info = resctrl ? std::optional(*resctrl) : std::nullopt;
  if (info) {
    for (const Aspect aspect : {Aspect::Group, Aspect::Ways, Aspect::Tasks}) {
      choose(set, aspect, {"resctrl"}, config.roots, info);
    }
    const bool software = !info->mb && config.bandwidth.regulator;
    choose(set, Aspect::Mba, {software ? "regulator" : "resctrl"}, config.roots, info);
  } else {
    set.missing[Aspect::Ways] = set.missing[Aspect::Mba] = resctrl.error().message;
  }
  if (set.absent || !set.looked_at) {
    for (const Aspect aspect : aspects) {
      if (aspect >= Aspect::Cpus) set.missing[aspect] = place.why;
    }
    return set;
  }
  const bool automatic = config.cpu.backend == "auto";
  const auto backends = automatic ? std::vector<std::string>{"cgroup2", "cgroup1", "affinity"}
                                  : std::vector<std::string>{config.cpu.backend};
  choose(set, Aspect::Cpus, backends, config.roots, info);
  choose_nodes(set, backends, config, info);
  choose(set, Aspect::Quota, {"cgroup2", "cgroup1"}, config.roots, info);
  std::vector<std::string> weights{"cgroup2", "cgroup1"};
  if (job && config.levers.idle) weights.insert(weights.begin(), "cgroup2-idle");
  choose(set, Aspect::Weight, weights, config.roots, info);
  choose_levers(set, config, info);
  return set;
}

}  // namespace osml
