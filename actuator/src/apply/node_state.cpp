#include "apply/node_state.h"

#include <algorithm>

#include "apply/restore.h"
#include "base/lock.h"
#include "base/trust.h"

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
    if (one.available || (one.name == "affinity" && cpuset)) continue;
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

Result<bool> Actuator::State::refresh() {
  resctrl = osml::resctrl::read_info(config->roots);
  knobs.clear();
  for (const ServiceConfig& service : config->services) knobs.push_back(choose_knobs(service, *config, resctrl));
  const bool quota = std::all_of(knobs.begin(), knobs.end(),
                                 [](const KnobSet& set) { return set.absent || set.find(Aspect::Quota) != nullptr; });
  const auto cpus = usable_cpus(*config);
  if (!cpus) return cpus.error();
  if (topology.cpus != *cpus) topology = read_topology(*config, *cpus);
  Platform now = make_platform(*config, topology, resctrl_info(), quota);
  mechanisms = probe_mechanisms(*config, resctrl, knobs);
  missing = missing_of(mechanisms);
  const bool changed = now.cpus != platform.cpus || domain_ids(now) != domain_ids(platform);
  platform = std::move(now);
  return changed;
}

std::optional<resctrl::Info> Actuator::State::resctrl_info() const {
  return resctrl ? std::optional(*resctrl) : std::nullopt;
}

Result<Fd> Actuator::State::lock_resctrl() const {
  if (!resctrl) return Fd();
  return lock_exclusive(config->roots.resctrl, lock_patience);
}

Status Actuator::State::take_over() {
  if (Status prepared = prepare_state_directory(config->state_dir); !prepared) return prepared;
  auto held = lock_file(config->state_dir / "lock", std::chrono::milliseconds(0));
  if (!held && held.error().kind == ErrorKind::Busy) {
    return Error{ErrorKind::Busy,
                 "another osml-agent works with state_dir " + config->state_dir.string() +
                     "; stop it, or give this one a state_dir of its own",
                 0};
  }
  if (!held) return held.error();
  lock = std::move(*held);
  auto loaded = load_journal(journal_path());
  if (!loaded) return loaded.error();
  journal = std::move(*loaded);
  return heal();
}

Status Actuator::State::heal() {
  if (journal.pending.empty()) return done();
  const auto tree = lock_resctrl();
  if (!tree) return tree.error();
  const std::size_t steps = journal.pending.size();
  const Status undone = restore_all(journal.pending, config->roots, resctrl_info());
  if (Status saved = save_journal(journal_path(), journal); !saved) return saved;
  if (!undone) return undone.error().wrap("heal the transaction that was interrupted");
  healed = "undid " + std::to_string(steps) + " settings of a transaction that was interrupted";
  return done();
}

Result<std::vector<Prepared>> Actuator::State::prepare(const Decision& decision) {
  std::vector<Prepared> changes;
  for (const Assignment& assignment : decision.assignments) {
    const auto set = std::find_if(knobs.begin(), knobs.end(),
                                  [&](const KnobSet& candidate) { return candidate.service == assignment.service; });
    for (const auto& [aspect, wanted] : wanted_values(assignment)) {
      Knob* knob = set->find(aspect);
      if (knob == nullptr) continue;  // the service is not there at the moment (see validate)
      const auto now = knob->read();
      if (!now) return now.error().wrap(assignment.service);
      if (knob->same(*now, wanted)) continue;
      const auto snapshot = knob->snapshot();
      if (!snapshot) return snapshot.error().wrap(assignment.service);
      changes.push_back({{assignment.service, aspect, *now, wanted}, knob, *snapshot});
    }
  }
  return changes;
}

void Actuator::State::remember(const Decision& decision) {
  for (const Assignment& assignment : decision.assignments) applied[assignment.service] = wanted_values(assignment);
}

}  // namespace osml
