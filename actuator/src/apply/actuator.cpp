#include "apply/actuator.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "apply/node_state.h"
#include "base/number.h"
#include "base/trust.h"
#include "base/units.h"
#include "node/platform.h"
#include "plan/even.h"
#include "plan/plan.h"
#include "plan/validate.h"
#include "resctrl/group.h"

namespace osml {

namespace {

using Clock = std::chrono::steady_clock;

Error read_only() { return {ErrorKind::Input, "this actuator was opened read-only", 0}; }

std::string lines_of(const std::vector<Prepared>& changes, const std::vector<Step>& steps) {
  std::string lines;
  for (const Step& step : steps) lines += (lines.empty() ? "" : "\n") + describe(changes[step.change].change, step);
  return lines;
}

unsigned mbps(double gbps) { return static_cast<unsigned>(std::llround(gbps * mb_per_gb)); }

// One value of a service in the decision's terms; empty where it is not set or cannot be told.
std::string value_of(const KnobSet& set, Aspect aspect) {
  Knob* knob = set.find(aspect);
  if (knob == nullptr) return {};
  const auto value = knob->read();
  return value ? *value : std::string();
}

// Those in force, where a cgroup above has fewer by now.
std::string cpus_of(const KnobSet& set) {
  Knob* knob = set.find(Aspect::Cpus);
  const auto value = knob == nullptr ? Result<std::string>(std::string()) : knob->in_force();
  return value ? *value : std::string();
}

Levers levers_of(const KnobSet& set) {
  Levers levers;
  if (const auto memory = parse_unsigned(value_of(set, Aspect::Memory))) levers.memory_mib = *memory;
  if (const auto disk = parse_unsigned(value_of(set, Aspect::Disk))) levers.disk_iops = *disk;
  if (const auto priority = parse_unsigned(value_of(set, Aspect::Priority))) {
    levers.realtime_priority = static_cast<unsigned>(*priority);
  }
  return levers;
}

}  // namespace

Actuator::Actuator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Actuator::Actuator(Actuator&&) noexcept = default;
Actuator& Actuator::operator=(Actuator&&) noexcept = default;
Actuator::~Actuator() = default;

Result<Actuator> Actuator::open(const Config& config, ActuatorOptions options) {
  auto state = std::make_unique<State>(config, options);
  if (options.fault_injection) state->crash = CrashPoint::from_environment();
  state->remember_targets();
  if (Status seen = state->look(); !seen) return seen.error();
  if (options.read_only) {
    if (auto journal = load_journal(state->journal_path())) state->journal = std::move(*journal);
    state->clocks = {};  // the journal says what was found before their limits
    if (Status seen = state->refresh(); !seen) return seen.error();
    if (Status remembered = state->remember_places(); !remembered) return remembered.error();
  } else if (Status taken = state->take_over(); !taken) {
    return taken.error();
  }
  state->machine_changed = false;
  return Actuator(std::move(state));
}

Status Actuator::check_files(const Config& config, bool read_only) {
  if (const auto cpus = usable_cpus(config); !cpus) return cpus.error();
  if (const auto curve = read_curve(config, resctrl::read_info(config.roots)); !curve) return curve.error();
  if (read_only) return done();
  if (Status usable = check_state_directory(config.state_dir); !usable) return usable;
  const auto journal = State::read_journal(State::journal_path(config.state_dir));
  return journal ? done() : Status(journal.error());
}

Status Actuator::check_lock(const Config& config) {
  const auto held = State::lock_directory(config.state_dir);
  return held ? done() : Status(held.error());
}

bool Actuator::throttles_in_software() const { return state_->throttles_in_software(); }
const Platform& Actuator::platform() const { return state_->platform; }
const std::map<std::string, std::string>& Actuator::missing() const { return state_->missing; }
const std::vector<Mechanism>& Actuator::mechanisms() const { return state_->mechanisms; }
const std::string& Actuator::healed() const { return state_->healed; }
const std::vector<Place>& Actuator::places() const { return state_->places; }
const Config& Actuator::config() const { return *state_->config; }
const Discovered& Actuator::discovered() const { return state_->discovered; }
const std::optional<MbaCurve>& Actuator::curve() const { return state_->curve; }
const TargetBook& Actuator::targets() const { return state_->targets; }
void Actuator::take_targets(TargetNews news) { state_->take_targets(std::move(news)); }
InterruptReport Actuator::interrupts() const { return state_->interrupt_report(); }
const PodFinder::Calls* Actuator::kubelet() const { return state_->locator.kubelet(); }

Result<std::vector<Assignment>> Actuator::read() {
  std::vector<Assignment> assignments;
  const auto clocks = state_->clocks_in_force(ClockKnob::Reach::AsFound);
  for (const KnobSet& set : state_->knobs) {
    if (set.absent) continue;
    Assignment assignment;
    assignment.service = set.service;
    if (const std::string cpus = cpus_of(set); !cpus.empty()) assignment.cpus = cpus;
    assignment.cpu_quota = parse_double(value_of(set, Aspect::Quota));
    // Every group has a weight; only ours says something.
    const Knob* weighed = set.find(Aspect::Weight);
    if (weighed != nullptr && state_->journal.find(set.name(*weighed)) != nullptr) {
      if (const auto weight = parse_unsigned(value_of(set, Aspect::Weight))) {
        assignment.cpu_weight = static_cast<unsigned>(*weight);
      }
    }
    const KnobSet& host = state_->host_of(set);  // a guest has what its cache group has
    if (const auto mask = parse_unsigned(value_of(host, Aspect::Ways), 16)) assignment.way_mask = *mask;
    if (const auto mba = parse_unsigned(value_of(host, Aspect::Mba))) {
      assignment.mba = static_cast<unsigned>(std::min<std::uint64_t>(*mba, most_mba));
      if (state_->curve) assignment.mba = mbps(state_->curve->gbps_of(*assignment.mba));
    }
    assignment.levers = levers_of(set);
    if (assignment.cpus) assignment.levers.frequency_mhz = state_->clock_of(*assignment.cpus, clocks);
    assignments.push_back(std::move(assignment));
  }
  return assignments;
}

Outcome Actuator::apply(const Decision& decision, bool dry_run, const std::vector<Assignment>& held) {
  const auto start = Clock::now();
  const auto finish = [&](Outcome outcome) {
    outcome.duration_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    return outcome;
  };
  const auto failed = [&](const Error& error) {
    return finish({decision.seq, OutcomeStatus::Failed, error.message + "; nothing was changed", std::nullopt});
  };
  if (state_->options.read_only && !dry_run) return failed(read_only());
  if (const Status seen = state_->refresh(); !seen) return failed(seen.error());
  if (!dry_run) {
    // What it could not undo is no reason not to set the rest: a decision says what all have.
    const Status whole = state_->heal_and_tell();
    if (!whole && state_->journal.pending.empty()) return failed(whole.error());
  }
  std::set<std::string> excused = state_->excused;
  for (const Place& place : state_->places) {
    if (place.absent) excused.insert(place.service);
  }
  if (const auto why =
          refusal(decision, *state_->config, state_->platform, state_->knobs, excused, held, state_->last_decided())) {
    return finish({decision.seq, OutcomeStatus::Refused, *why, std::nullopt});
  }
  const Decision present = state_->about_present(decision);
  if (const auto why = state_->groups_refusal(present)) {
    return finish({decision.seq, OutcomeStatus::Refused, *why, std::nullopt});
  }
  auto wanted = state_->wanted_of(present);
  if (const Status memory = state_->add_memory(wanted); !memory) return failed(memory.error());
  if (const Status clocks = state_->add_clock_limits(wanted); !clocks) return failed(clocks.error());
  if (const Status added = state_->add_interrupts(wanted); !added) return failed(added.error());
  const auto changes = state_->prepare(wanted);
  if (!changes) return failed(changes.error());
  std::vector<Change> plain;
  for (const Prepared& prepared : *changes) plain.push_back(prepared.change);
  const std::vector<Step> steps = plan(plain, {state_->platform.min_way_bits, state_->platform.sparse_masks});
  if (dry_run) {
    state_->note_interrupt_plan(wanted);
    return finish({decision.seq, OutcomeStatus::DryRun, lines_of(*changes, steps), std::nullopt});
  }
  if (steps.empty()) {
    if (!state_->give_up_undoing().empty()) {
      if (const Status saved = state_->keep_journal(); !saved) return failed(saved.error());
    }
    if (const Status settled = state_->settle(wanted); !settled) return failed(settled.error());
    return finish({decision.seq, OutcomeStatus::Unchanged, "", std::nullopt});
  }
  return finish(state_->commit(decision, wanted, *changes, steps));
}

Status Actuator::reconcile() {
  if (state_->options.read_only) return read_only();
  const Status kept = state_->journal_unsaved ? state_->keep_journal() : done();
  if (Status seen = state_->look(); !seen) return seen;
  const bool changed = std::exchange(state_->machine_changed, false);
  const Status undone = state_->heal_and_tell();
  Status left = state_->leave_absent();
  const bool overwritten = state_->overwritten > 0;
  if (overwritten) --state_->overwritten;
  const bool regroup = state_->regroup || state_->has_lost_group();
  Status again = changed || overwritten || regroup ? state_->reapply() : done();
  state_->regroup = regroup && !again;
  state_->set_group_room(state_->platform);  // groups of those who have gone are free by now
  Status anew = state_->follow_cgroups();
  Status monitored = state_->monitor_only_groups();
  const Status memory = state_->follow_memory();
  Status followed = state_->follow_tasks();
  Status clocked = state_->follow_clocks();
  Status interrupts = state_->follow_interrupts();
  if (!undone) return undone;
  if (!kept) return kept;
  if (!left) return left;
  if (!again) return again;
  if (!anew) return anew;
  if (!memory) return memory;
  if (!monitored) return monitored;
  if (!followed) return followed;
  return clocked ? interrupts : clocked;
}

Result<ContainerAnswer> Actuator::hear_of(const ContainerQuestion& question) {
  if (state_->options.read_only) return read_only();
  Locator& locator = state_->locator;
  locator.hear_of(question, state_->node_time_s());
  ContainerAnswer answer{question.number, locator.service_of(question), ""};
  if (answer.service.empty() && state_->may_become_service(question.pod_uid)) {
    if (Status seen = look(); !seen) return seen.error();
    answer.service = locator.service_of(question);
  }
  if (answer.service.empty()) answer.service = state_->untold_service_of(question);
  if (answer.service.empty()) return answer;
  if (question.stage == ContainerQuestion::Stage::Start) {
    if (Status seen = look(); !seen) return seen.error();
    // Whatever else can't be set again, this container starts with what it is to have.
    if (Status set = reconcile(); !set) spdlog::warn("when container {} started: {}", question.id, set.error().message);
  }
  const CpusInForce all = cpus_in_force();
  const auto cpus = all.find(answer.service);
  if (cpus != all.end()) answer.cpus = cpus->second;
  return answer;
}

// Also of pods that the kubelet has not told yet: the runtime would take the CPUs of those back that are left out.
CpusInForce Actuator::cpus_in_force() const {
  CpusInForce all;
  for (const Applied& applied : state_->journal.applied) {
    const auto cpus = applied.values.find(Aspect::Cpus);
    if (is_of_container(applied.match) && cpus != applied.values.end()) all[applied.service] = cpus->second;
  }
  return all;
}

// The runtime writes after it was answered: maybe after the next look, and surely before the one that follows.
void Actuator::expect_overwriting() { state_->overwritten = 2; }

Status Actuator::look() { return state_->look(); }

Status Actuator::restore() {
  if (state_->options.read_only) return read_only();
  // What cannot be undone must not keep the settings of the others in force.
  (void)state_->heal();
  const bool given_up = !state_->give_up_undoing().empty();
  const bool nothing = state_->journal.originals.empty() && state_->journal.applied.empty();
  if (nothing && !given_up && !state_->journal_unsaved) return done();
  state_->journal.applied.clear();
  state_->interrupts.held.clear();
  state_->interrupts.displaced.clear();
  state_->interrupts.plan.clear();
  Status back = state_->restore_saved(state_->journal.originals);
  if (Status saved = state_->keep_journal(); !saved) return saved;
  return back;
}

// What this node has no mechanism for is left out, so that the decision can be applied.
Decision Actuator::even_decision() const {
  Config present = *state_->config;
  std::erase_if(present.services, [&](const ServiceConfig& service) {
    const Place* place = place_of(state_->places, service.spec.name);
    return place != nullptr && place->absent;
  });
  Decision decision = osml::even_decision(present, state_->platform);
  for (Assignment& assignment : decision.assignments) {
    const KnobSet& set = *std::find_if(state_->knobs.begin(), state_->knobs.end(),
                                       [&](const KnobSet& one) { return one.service == assignment.service; });
    if (set.find(Aspect::Cpus) == nullptr) assignment.cpus.reset();
    if (set.find(Aspect::Quota) == nullptr) assignment.cpu_quota.reset();
    if (set.find(Aspect::Ways) == nullptr) assignment.way_mask.reset();
  }
  return decision;
}

std::string Actuator::monitor_group(const std::string& service) const {
  if (!state_->resctrl || state_->shares_group(service)) return {};
  const fs::path group = resctrl::group_path(state_->config->roots.resctrl, service, state_->resctrl->allocates());
  return osml::exists(group) ? group.string() : std::string();
}

}  // namespace osml
