#include "apply/node_state.h"

#include <algorithm>

#include "base/clock.h"
#include "base/lock.h"
#include "base/units.h"
#include "config/trusted_file.h"
#include "node/levers.h"
#include "resctrl/group.h"

namespace osml {

namespace {

constexpr auto lock_patience = std::chrono::seconds(1);

// Names of what is missing, for the observation. Affinity stands in for cpusets and the other way round, so the one
// is not missed where the other is there.
std::map<std::string, std::string> missing_of(const std::vector<Mechanism>& mechanisms) {
  std::map<std::string, std::string> missing;
  const bool cpuset = std::any_of(mechanisms.begin(), mechanisms.end(),
                                  [](const Mechanism& one) { return one.name == "cpuset" && one.available; });
  for (const Mechanism& one : mechanisms) {
    // A regulator is wanted only where mba is missing, whose reason names it.
    if (one.available || one.name == "mba_regulator" || (one.name == "affinity" && cpuset)) continue;
    missing[one.name] = one.reason;
  }
  return missing;
}

std::string domain_ids(const Platform& platform) {
  std::string ids;
  for (const CacheDomain& domain : platform.domains) ids += std::to_string(domain.id) + ",";
  return ids;
}

}  // namespace

Status Actuator::State::refresh() {
  resctrl = osml::resctrl::read_info(config->roots);
  places = locator.look();
  knobs.clear();
  for (std::size_t i = 0; i < places.size(); ++i) {
    knobs.push_back(choose_knobs(places[i], config->services[i].spec.kind == "be", *config, resctrl));
  }
  const bool quota = std::all_of(knobs.begin(), knobs.end(),
                                 [](const KnobSet& set) { return set.absent || set.find(Aspect::Quota) != nullptr; });
  const auto cpus = usable_cpus(*config);
  if (!cpus) return cpus.error();
  if (topology.cpus != *cpus) {
    topology = read_topology(*config, *cpus);
    numa_lists.clear();
    clocks = {};
  }
  if (numa_lists.empty() || config->cpu.follow_memory) look_for_memory();
  Platform now = make_platform(*config, topology, resctrl_info(), quota);
  add_levers(now, *config, knobs);
  add_clocks(now);
  look_for_interrupts();
  if (!curve) {
    auto read = read_curve(*config, resctrl);
    if (!read) return read.error();
    curve = std::move(*read);
  }
  set_throttle(now);
  set_group_room(now);
  mechanisms = probe_mechanisms(*config, resctrl, knobs);
  missing = missing_of(mechanisms);
  if (group_room == 0U) {
    missing["cache_groups"] = "none is free: other programs use all groups of " + config->roots.resctrl.string() +
                              "; nobody can have ways or a memory bandwidth of its own until one of them is removed";
  }
  if (auto placement = probe_placement(*config, now)) mechanisms.push_back(std::move(*placement));
  for (LeverState& lever : probe_levers(*config, mechanisms, knobs, clocks, numa, interrupts.found)) {
    if (lever.switched_on && !lever.mechanism.available) missing[lever.mechanism.name] = lever.mechanism.reason;
    mechanisms.push_back(std::move(lever.mechanism));
  }
  for (const KnobSet& set : knobs) {
    if (set.weak_cpus.empty()) continue;
    missing["cpuset." + set.service] =
        "weak: only their affinity binds the tasks to CPUs, and they can change it; " + set.weak_cpus;
  }
  for (const ServiceConfig& service : config->services) {
    const Place* place = place_of(places, service.spec.name);
    if (!resctrl || !resctrl->monitor || place->absent || !shares_group(service.spec.name)) continue;
    missing["llc_monitoring." + service.spec.name] = "the service shares a cache group, so nobody counts it alone";
  }
  if (now.cpus != platform.cpus || domain_ids(now) != domain_ids(platform)) machine_changed = true;
  platform = std::move(now);
  return done();
}

// Memory may be there later than the agent, or have CPUs that the agent does not use.
void Actuator::State::look_for_memory() {
  std::string lists = read_numa_lists(config->roots);
  if (lists == numa_lists) return;
  numa = read_numa(config->roots);
  numa_lists = std::move(lists);
}

void Actuator::State::follow_pods() {
  const std::vector<const Pod*>* pods = locator.asking_pods();
  if (pods == nullptr) return;
  std::vector<ServiceConfig>& services = configured.services;
  const auto of_file = [](const ServiceConfig& one) { return !one.spec.source.has_value(); };
  const auto first = std::find_if_not(services.begin(), services.end(), of_file);
  targets.see_pods(locator.kubelet()->good);
  const std::vector<ServiceConfig> found = std::exchange(found_before, {});
  const std::vector<ServiceConfig>& before = found.empty() ? discovered.services : found;
  Discovered now = discover(*pods, config->kubelet.discover, {services.begin(), first}, before, targets);
  tell(now, discovered);
  for (const ServiceConfig& one : discovered.services) unasked.insert(one.spec.name);
  if (!std::exchange(pods_are_told, true)) {
    for (const Saved& saved : journal.originals) {
      if (is_of_pod(saved.name.match)) unasked.insert(saved.name.service);
    }
    for (const Applied& applied : journal.applied) {
      if (is_of_pod(applied.match)) unasked.insert(applied.service);
    }
  }
  services.erase(first, services.end());
  services.insert(services.end(), now.services.begin(), now.services.end());
  for (const ServiceConfig& one : services) unasked.erase(one.spec.name);
  discovered = std::move(now);
}

double Actuator::State::node_time_s() const { return monotonic_s() * config->time_scale; }

Status Actuator::State::look() {
  locator.ask(node_time_s());
  follow_pods();
  Status seen = refresh();
  excused.clear();
  for (const Place& place : places) {
    if (place.absent) excused.insert(place.service);
  }
  return seen;
}

Status Actuator::State::remember_places() {
  for (const Applied& applied : journal.applied) {
    if (applied.match.found_by.empty()) continue;
    ServiceConfig& known = found_before.emplace_back();
    known.spec.name = applied.service;
    known.match = applied.match;
  }
  for (const Saved& saved : journal.originals) {
    if (saved.name.aspect == Aspect::Cpus) locator.remember_own_work(saved.name.match);
  }
  if (found_before.empty() && journal.originals.empty()) return done();
  if (!config->kubelet.discover.on()) found_before.clear();
  follow_pods();  // of several pods of one name the one that has it already
  for (const Applied& applied : journal.applied) locator.remember(applied.service, applied.match);
  return look();
}

Decision Actuator::State::about_present(const Decision& decision) const {
  Decision present = decision;
  std::erase_if(present.assignments, [&](const Assignment& assignment) {
    const Place* place = place_of(places, assignment.service);
    return place != nullptr && place->absent;
  });
  return present;
}

// The root group counts as one for those who ask. Without another one a decision that divides the cache or the memory
// bandwidth would be refused, whatever it says: policies are told that this node can divide neither.
void Actuator::State::set_group_room(Platform& now) {
  group_room.reset();
  if (!resctrl || !resctrl->allocates()) return;
  std::set<std::string> ours;
  // A group of a service that has gone stays as long as others are in it, and is no room for anybody.
  for (const Place& place : places) {
    if (!place.absent) ours.insert(osml::resctrl::group_name(place.service));
  }
  group_room = osml::resctrl::room_for_groups(config->roots.resctrl, *resctrl, ours);
  now.max_groups = *group_room + 1;
  if (*group_room > 0) return;
  now.ways.reset();
  now.way_mib.reset();
  now.mba.reset();
}

std::optional<resctrl::Info> Actuator::State::resctrl_info() const {
  return resctrl ? std::optional(*resctrl) : std::nullopt;
}

Result<Fd> Actuator::State::lock_resctrl() const {
  if (!resctrl) return Fd();
  return lock_exclusive(config->roots.resctrl, lock_patience);
}

Result<std::optional<MbaCurve>> read_curve(const Config& config, const Result<resctrl::Info>& info) {
  if (!config.bandwidth.curve || !info || !info->mb) return std::optional<MbaCurve>();
  const auto text = read_trusted(*config.bandwidth.curve, "bandwidth.curve");
  if (!text) return text.error().wrap("bandwidth.curve");
  auto read = parse_curve(*text, config.bandwidth.curve->string());
  if (!read) return read.error();
  const bool percent = info->mb->unit == resctrl::BandwidthUnit::Percent;
  if (!percent || read->unit() != "percent") {
    return Error{ErrorKind::Input,
                 config.bandwidth.curve->string() + " is a curve in " + read->unit() +
                     ", but this machine throttles in " + (percent ? "percent" : "bandwidth already") +
                     "; remove bandwidth.curve, or measure the curve on this machine",
                 0};
  }
  return std::optional<MbaCurve>(std::move(*read));
}

bool Actuator::State::throttles_in_software() const { return config->bandwidth.regulator && !(resctrl && resctrl->mb); }

void Actuator::State::set_throttle(Platform& now) const {
  if (curve) {
    now.mba = curve->range();
    return;
  }
  const bool software = std::any_of(knobs.begin(), knobs.end(), [](const KnobSet& set) {
    const Knob* knob = set.find(Aspect::Mba);
    return knob != nullptr && knob->backend() == "regulator";
  });
  if (!software) return;
  constexpr double any_gbps = 1000;
  constexpr unsigned least_mbps = 100;
  const double most = config->platform.bandwidth_gbps.value_or(any_gbps) * mb_per_gb;
  now.mba = MbaRange{least_mbps, std::max(least_mbps, static_cast<unsigned>(most)), 0, "mbps"};
}

// A group always has both: what the decision does not say is as in the root group, where the service was found.
Wanted Actuator::State::wanted_of(const Assignment& assignment) const {
  Assignment whole = assignment;
  if (curve && assignment.mba) whole.mba = curve->setting_for(*assignment.mba / mb_per_gb);
  if ((whole.way_mask || whole.mba) && resctrl) {
    if (!whole.way_mask && resctrl->l3) whole.way_mask = resctrl->l3->found;
    if (!whole.mba && resctrl->mb) whole.mba = resctrl->mb->found;
  }
  return wanted_values(whole);
}

}  // namespace osml
