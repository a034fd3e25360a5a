// What an agent does first: take the state directory, and bring order into what the last one left.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "apply/node_state.h"
#include "apply/restore.h"
#include "bandwidth/brake.h"
#include "base/lock.h"
#include "base/trust.h"

namespace osml {

namespace {

// Another one after every boot; empty where the tree has none (a virtual node).
std::string boot_id(const Roots& roots) {
  const auto text = read_text(roots.proc / "sys" / "kernel" / "random" / "boot_id");
  return text ? std::string(trim(*text)) : std::string();
}

bool is_budget(const Saved& saved) { return saved.name.backend == "regulator"; }

bool is_of_machine(const Saved& saved) { return is_machine_part(saved.name.service); }

}  // namespace

Result<Fd> Actuator::State::lock_directory(const fs::path& state_dir) {
  if (Status prepared = prepare_state_directory(state_dir); !prepared) return prepared.error();
  auto held = lock_file(state_dir / "lock", std::chrono::milliseconds(0));
  if (!held && held.error().kind == ErrorKind::Busy) {
    return Error{
        ErrorKind::Busy,
        "another osml-agent uses state_dir " + state_dir.string() + "; stop that agent, or set another state_dir", 0};
  }
  return held;
}

Status Actuator::State::take_over() {
  auto held = lock_directory(config->state_dir);
  if (!held) return held.error();
  lock = std::move(*held);
  forget_targets();
  auto loaded = read_journal(journal_path());
  if (!loaded) return loaded.error();
  journal = std::move(*loaded);
  if (Status dropped = drop_stale(); !dropped) return dropped;
  clocks = {};  // the journal says what was found before their limits
  if (Status seen = refresh(); !seen) return seen;
  // reconcile() tries again, and the other services need not wait for that.
  if (const Status whole = heal(); !whole) say(whole.error().message);
  if (Status remembered = remember_places(); !remembered) return remembered;
  return restore_strays();
}

Result<Journal> Actuator::State::read_journal(const fs::path& path) {
  if (osml::exists(path)) {
    if (Status trusted = refuse_untrusted(path, "journal"); !trusted) return trusted.error();
  }
  return load_journal(path);
}

Status Actuator::State::keep_journal() {
  journal.roots = config->roots;
  journal.leave = config->on_exit == OnExit::Leave;
  Status saved = save_journal(journal_path(), journal);
  journal_unsaved = !saved.ok();
  return saved;
}

void Actuator::State::say(const std::string& sentence) { healed += (healed.empty() ? "" : "; ") + sentence; }

// Settings of the kernel end with it. Budgets are in our own files, which do not.
Status Actuator::State::drop_stale() {
  const std::string now = boot_id(config->roots);
  const bool rebooted = !now.empty() && !journal.boot_id.empty() && journal.boot_id != now;
  journal.boot_id = now;
  if (!rebooted) return done();
  const auto stale = [](const Saved& saved) { return !is_budget(saved); };
  const std::size_t dropped = std::erase_if(journal.originals, stale) + std::erase_if(journal.pending, stale);
  journal.applied.clear();
  if (dropped > 0)
    say("the machine was started anew, so the agent dropped " + std::to_string(dropped) + " saved settings");
  return keep_journal();
}

Status Actuator::State::heal() {
  if (journal.pending.empty()) return done();
  const auto tree = lock_resctrl();
  if (!tree) return tree.error();
  const std::size_t steps = journal.pending.size();
  const Status undone = restore_all(journal.pending, roots_to_restore(), resctrl);
  // CPUs may be offline for long. follow_clocks() and follow_interrupts() set what belongs to them when they are back,
  // and what was found of it stays among the originals.
  const std::size_t later = std::erase_if(journal.pending, is_of_machine);
  if (Status saved = keep_journal(); !saved) return saved;
  if (!journal.pending.empty()) return undone.error().wrap("cannot undo the interrupted transaction");
  if (later > 0) say(undone.error().message);
  say("the agent undid " + std::to_string(steps) + " settings of an interrupted transaction");
  return done();
}

Status Actuator::State::heal_and_tell() {
  const std::string before = std::exchange(healed, {});
  Status whole = heal();
  if (!healed.empty()) spdlog::warn("{}", healed);
  healed = before;
  return whole;
}

// What was found before the first change stays among the originals.
std::vector<Saved> Actuator::State::give_up_undoing() {
  for (const Saved& left : journal.pending) {
    if (journal.find(left.name) == nullptr) journal.originals.push_back(left);
  }
  return std::exchange(journal.pending, {});
}

void Actuator::State::forget_undoing(const std::vector<Saved>& all, const std::vector<Saved>& kept) {
  const auto among = [](const std::vector<Saved>& some, const Saved& one) {
    return std::any_of(some.begin(), some.end(), [&](const Saved& saved) { return same_knob(saved.name, one.name); });
  };
  std::erase_if(journal.pending, [&](const Saved& saved) { return among(all, saved) && !among(kept, saved); });
}

bool Actuator::State::is_stray(const KnobName& name) const {
  const auto of_name = [&](const KnobSet& one) { return one.service == name.service; };
  const std::vector<KnobSet>& parts = is_interrupt_part(name.service) ? interrupts.found.knobs : clocks.knobs;
  if (is_machine_part(name.service)) return std::none_of(parts.begin(), parts.end(), of_name);
  const auto set = std::find_if(knobs.begin(), knobs.end(), of_name);
  const bool group_of_service = name.backend == "resctrl" && name.aspect != Aspect::Tasks;
  if (group_of_service && hosts_others(name.service)) return false;
  if (set == knobs.end()) return !may_be_asked_for(name.service, name.match);
  if (is_superseded(name)) return true;
  // Switched off since.
  if (name.aspect >= Aspect::Memory && !set->absent && set->looked_at && set->find(name.aspect) == nullptr) return true;
  return !group_of_service && name.match != set->match;
}

bool Actuator::State::may_be_asked_for(const std::string& service, const Match& match) const {
  const bool known = std::any_of(config->services.begin(), config->services.end(),
                                 [&](const ServiceConfig& one) { return one.spec.name == service; });
  return !known && config->kubelet.discover.on() && !locator.has_heard_of_pods() && is_of_one_pod(match);
}

std::string Actuator::State::untold_service_of(const ContainerQuestion& heard) const {
  for (const Applied& applied : journal.applied) {
    const bool has_container = is_of_container(applied.match) && applied.match.cgroup;
    if (heard.id.empty() || !has_container || !is_untold_pod(applied)) continue;
    const std::string name = fs::path(*applied.match.cgroup).filename();
    if (name.find(heard.id) != std::string::npos) return applied.service;
  }
  return {};
}

bool Actuator::State::is_untold_pod(const Applied& applied) const {
  const bool told =
      std::any_of(knobs.begin(), knobs.end(), [&](const KnobSet& set) { return set.service == applied.service; });
  return !told && may_be_asked_for(applied.service, applied.match);
}

Result<Actuator::State::GivenBack> Actuator::State::give_back(const std::function<bool(const KnobName&)>& goes) {
  std::vector<Saved> going;
  std::vector<Saved> others;
  for (const Saved& saved : journal.originals) (goes(saved.name) ? going : others).push_back(saved);
  if (going.empty()) return GivenBack{};
  const std::vector<Saved> all = going;
  Status back = restore_saved(going);
  forget_undoing(all, going);
  const std::size_t restored = all.size() - going.size();
  journal.originals = std::move(going);
  journal.originals.insert(journal.originals.end(), others.begin(), others.end());
  if (Status saved = keep_journal(); !saved) return saved.error();
  return GivenBack{restored, std::move(back)};
}

// What cannot be restored is no reason not to manage the others. What pods no longer ask for, leave_absent() lets go.
Status Actuator::State::restore_strays() {
  std::erase_if(journal.applied, [&](const Applied& applied) {
    const bool gone = std::none_of(knobs.begin(), knobs.end(), [&](const KnobSet& set) {
      return set.service == applied.service && set.match == applied.match;
    });
    return gone && !may_be_asked_for(applied.service, applied.match);
  });
  // The group of a service that has gone, with others in it: leave_absent() removes it when a decision has moved them.
  for (const Saved& saved : journal.originals) {
    const bool has_set =
        std::any_of(knobs.begin(), knobs.end(), [&](const KnobSet& set) { return set.service == saved.name.service; });
    const bool kept = may_be_asked_for(saved.name.service, saved.name.match);
    if (!has_set && !kept && hosts_others(saved.name.service)) unasked.insert(saved.name.service);
    // A killed agent may have left it standing still, and nobody regulates it before the kubelet tells it.
    if (kept && is_budget(saved)) {
      (void)Brake(roots_to_restore(), saved.name.service, saved.name.match).release();
    }
  }
  const auto given = give_back([this](const KnobName& name) { return is_stray(name); });
  if (!given) return given.error();
  if (given->restored > 0) {
    say("the agent restored " + std::to_string(given->restored) +
        " settings of services that the configuration no longer has as they were");
  }
  if (!given->back) say(given->back.error().message);
  return done();
}

Status Actuator::State::restore_saved(std::vector<Saved>& saved) const {
  const auto tree = lock_resctrl();
  if (tree) return restore_all(saved, roots_to_restore(), resctrl);
  // Somebody else changes the resctrl tree for long: CPUs and all else need not wait for that.
  std::vector<Saved> kept;
  std::vector<Saved> others;
  for (const Saved& one : saved) (one.name.backend == "resctrl" ? kept : others).push_back(one);
  Status back = restore_all(others, roots_to_restore(), resctrl);
  if (back && !kept.empty()) back = tree.error();
  saved = std::move(kept);
  saved.insert(saved.end(), others.begin(), others.end());
  return back;
}

Roots Actuator::State::roots_to_restore() const {
  Roots roots = config->roots;
  roots.budgets = config->state_dir / "budgets";
  return roots;
}

}  // namespace osml
