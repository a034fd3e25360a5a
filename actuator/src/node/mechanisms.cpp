#include "node/mechanisms.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "bandwidth/regulator_knob.h"
#include "cpu/affinity.h"
#include "cpu/members.h"
#include "cpu/threads.h"

namespace osml {

Mechanism unavailable(const std::string& name, const std::string& why) {
  constexpr std::string_view marker = "; run: ";
  const std::size_t at = why.find(marker);
  if (at == std::string::npos) return {name, false, why, ""};
  return {name, false, why.substr(0, at), why.substr(at + marker.size())};
}

namespace {

// What the machine has is of no use to a user who may not set it.
Mechanism for_this_user(const std::string& name, const std::string& found, const fs::path& directory) {
  if (::geteuid() == 0 || ::faccessat(AT_FDCWD, directory.c_str(), W_OK, AT_EACCESS) == 0)
    return {name, true, found, ""};
  return {name, false, found + ", but this user cannot write to " + directory.string(), "run it as root"};
}

}  // namespace

Mechanism of_machine(const std::string& name, const std::string& controller, const Roots& roots) {
  const auto controllers = read_text(roots.cgroup / "cgroup.controllers");
  if (controllers && (" " + *controllers + " ").find(" " + controller + " ") != std::string::npos) {
    return for_this_user(name, "cgroup2", roots.cgroup);
  }
  const fs::path first = cgroup1_directory(roots, controller, "");
  if (!first.empty()) return for_this_user(name, "cgroup1", first);
  return unavailable(name, "no cgroup hierarchy below " + roots.cgroup.string() + " has the controller " + controller);
}

namespace {

// All services that lack it for this reason, so that nobody meets the second one after the first was mended.
std::string services_without(Aspect aspect, const std::string& why, const std::vector<KnobSet>& knobs) {
  std::string names;
  std::size_t n = 0;
  for (const KnobSet& set : knobs) {
    if (set.absent || set.find(aspect) != nullptr || set.missing.at(aspect) != why) continue;
    names += (n++ == 0 ? "'" : ", '") + set.service + "'";
  }
  return (n == 1 ? "service " : "services ") + names + ": " + why;
}

}  // namespace

Mechanism of_services(const std::string& name, Aspect aspect, const std::vector<KnobSet>& knobs) {
  std::string backends;
  for (const KnobSet& set : knobs) {
    if (set.absent) continue;
    const Knob* knob = set.find(aspect);
    if (knob == nullptr) return unavailable(name, services_without(aspect, set.missing.at(aspect), knobs));
    const std::string backend(knob->backend());
    if (backends.find(backend) == std::string::npos) backends += (backends.empty() ? "" : ", ") + backend;
  }
  if (backends.empty()) return unavailable(name, "no cgroup of a configured service exists at the moment");
  const auto weak = std::find_if(knobs.begin(), knobs.end(), [](const KnobSet& set) { return !set.weak_cpus.empty(); });
  if (aspect != Aspect::Cpus || weak == knobs.end()) return {name, true, backends, ""};
  const Mechanism why = unavailable(name, weak->weak_cpus);
  return {name, true, backends + " (weak: tasks can change their own affinity; " + why.reason + ")", why.how_to_enable};
}

namespace {

Mechanism cpu_mechanism(const std::string& name, const std::string& controller, Aspect aspect, const Config& config,
                        const std::vector<KnobSet>& knobs) {
  return knobs.empty() ? of_machine(name, controller, config.roots) : of_services(name, aspect, knobs);
}

Mechanism affinity(const Config& config, bool of_services) {
  const Status usable = AffinityKnob(config.roots, {}).probe();
  // A user may bind own tasks: where services are named, they tell.
  if (usable && !of_services && ::geteuid() != 0 && !may_set_others()) {
    return {"affinity", false, "this user may bind only own tasks", "run it as root"};
  }
  return usable ? Mechanism{"affinity", true, "sched_setaffinity", ""}
                : unavailable("affinity", usable.error().message);
}

std::string domains(const std::vector<unsigned>& ids) {
  std::string text;
  for (const unsigned id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return (ids.size() == 1 ? "domain " : "domains ") + text;
}

Mechanism ways(const Result<resctrl::Info>& info) {
  if (!info) return unavailable("llc_ways", info.error().message);
  if (!info->l3) return unavailable("llc_ways", "resctrl is mounted, but the L3 cache cannot be partitioned here");
  const resctrl::CacheInfo& l3 = *info->l3;
  return {"llc_ways", true,
          "resctrl, " + std::to_string(__builtin_popcountll(l3.cbm_mask)) + " ways, " + domains(l3.domains) + ", " +
              std::to_string(l3.num_closids) + " groups" +
              (l3.resources.size() > 1 ? ", same ways for code and data" : ""),
          ""};
}

bool software_throttle(const std::vector<KnobSet>& knobs) {
  return std::any_of(knobs.begin(), knobs.end(), [](const KnobSet& set) {
    const Knob* knob = set.find(Aspect::Mba);
    return knob != nullptr && knob->backend() == "regulator";
  });
}

// What stands in for MBA: budgets that the agent enforces itself.
Mechanism regulator(const Config& config, const Result<resctrl::Info>& info, const std::vector<KnobSet>& knobs) {
  constexpr const char* name = "mba_regulator";
  if (info && info->mb) return unavailable(name, "not needed: the hardware limits memory bandwidth (mba)");
  const std::optional<resctrl::Info> counters = info ? std::optional(*info) : std::nullopt;
  Roots roots = config.roots;
  if (roots.budgets.empty()) roots.budgets = config.state_dir / "budgets";  // what the machine could do, if it were on
  if (const auto why = regulator_obstacle(roots, counters)) {
    return unavailable(name, info ? *why : *why + " (" + info.error().message + ")");
  }
  if (!config.bandwidth.regulator) {
    return {name, false, "the software regulator is switched off", "set bandwidth.regulator: on"};
  }
  return knobs.empty() ? Mechanism{name, true, "resctrl counters, cgroup.freeze", ""}
                       : of_services(name, Aspect::Mba, knobs);
}

Mechanism bandwidth(const Config& config, const Result<resctrl::Info>& info, const std::vector<KnobSet>& knobs) {
  if (software_throttle(knobs)) return {"mba", true, "software regulator, in MB/s", ""};
  if (!info) return unavailable("mba", info.error().message);
  if (!info->mb) {
    return unavailable("mba", "resctrl is mounted, but memory bandwidth cannot be throttled here; " +
                                  regulator(config, info, knobs).reason);
  }
  const resctrl::BandwidthInfo& mb = *info->mb;
  const char* unit = mb.unit == resctrl::BandwidthUnit::Percent ? "percent"
                     : mb.unit == resctrl::BandwidthUnit::Mbps  ? "MB/s"
                                                                : "1/8 GB/s";
  const bool translated = config.bandwidth.curve && mb.unit == resctrl::BandwidthUnit::Percent;
  const std::string how =
      std::string("resctrl, in ") + unit + (translated ? " (requested in MB/s, converted by the curve)" : "");
  return {"mba", true, how + ", " + domains(mb.domains), ""};
}

Mechanism monitoring(const Result<resctrl::Info>& info) {
  if (!info) return unavailable("llc_monitoring", info.error().message);
  if (!info->monitor) return unavailable("llc_monitoring", "resctrl is mounted, but does not monitor here");
  std::string events;
  for (const std::string& event : info->monitor->events) events += (events.empty() ? "" : ", ") + event;
  return {"llc_monitoring", true, "resctrl, " + events, ""};
}

}  // namespace

std::vector<Mechanism> probe_mechanisms(const Config& config, const Result<resctrl::Info>& info,
                                        const std::vector<KnobSet>& knobs) {
  return {cpu_mechanism("cpuset", "cpuset", Aspect::Cpus, config, knobs),
          affinity(config, !knobs.empty()),
          cpu_mechanism("cpu_quota", "cpu", Aspect::Quota, config, knobs),
          cpu_mechanism("cpu_weight", "cpu", Aspect::Weight, config, knobs),
          ways(info),
          bandwidth(config, info, knobs),
          regulator(config, info, knobs),
          monitoring(info)};
}

std::optional<Mechanism> probe_placement(const Config& config, const Platform& platform) {
  const std::size_t n = platform.domains.size();
  if (n < 2) return std::nullopt;
  const std::string found = std::to_string(n) + " cache domains; placement was measured in simulation only";
  if (config.cpu.place) return Mechanism{"cache_domains", true, found, ""};
  return Mechanism{"cache_domains", false, found + ", and is switched off", "set cpu.cache_domains: place"};
}

}  // namespace osml
