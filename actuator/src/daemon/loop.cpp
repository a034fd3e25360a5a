#include "daemon/loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "plan/core_limits.h"
#include "plan/suppose.h"

namespace osml {

namespace {

// Key and text in a record, so that nobody takes its allocations for real ones.
constexpr const char* why_dry = "nothing is applied; partition and assignments are what would be in force";

constexpr double longest_peace_s = 60;  // of wall time: no Retry-After may switch the agent off

bool same_names(const std::vector<Assignment>& a, const std::vector<Assignment>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Assignment& one, const Assignment& other) { return one.service == other.service; });
}

}  // namespace

Loop::Loop(const Config& config, Machine& machine, DecisionSource& server, Sensors& sensors, Audit& audit, bool dry_run,
           double now_s)
    : config_(&config), machine_(&machine), server_(&server), sensors_(&sensors), audit_(&audit), dry_run_(dry_run) {
  memory_.silence = Silence(config.hold_s, now_s);
}

void Loop::remember(Memory memory, double now_s) {
  memory_ = std::move(memory);
  memory_.silence.go_on(config_->hold_s, now_s);
}

void Loop::turn(const std::function<double()>& now) {
  report_ = {};
  reconcile();
  take_turn(now());
  note_interrupts();
}

void Loop::take_turn(double now_s) {
  const Observation observation = observe(now_s);
  if (observation.services.empty()) {
    idle(now_s);
    return;
  }
  if (memory_.silence.in_peace(now_s)) {
    endure({AskFailure::Busy, "the server sent Retry-After; the agent waits before its next request", std::nullopt},
           now_s, false);
    return;
  }
  const Answer answer = ask(observation);
  if (!answer) {
    endure(answer.error(), now_s, true);
    return;
  }
  if (const auto lasted = memory_.silence.answered(now_s)) {
    spdlog::info("the server sends decisions again after {:.1f} s without a decision", *lasted);
  }
  obey(*answer, observation.assignments, now_s);
}

void Loop::reconcile() {
  const Status reconciled = dry_run_ ? machine_->look() : machine_->reconcile();
  if (!reconciled) report_.count(KernelWork::Reconcile);
  const std::string error = reconciled ? "" : reconciled.error().message;
  if (!error.empty() && error != reconcile_error_) spdlog::warn("reconcile failed: {}", error);
  reconcile_error_ = error;
}

std::vector<Assignment> Loop::read_back() {
  auto assignments = machine_->read();
  if (assignments) return std::move(assignments).value();
  report_.count(KernelWork::Read);
  spdlog::warn("the allocation cannot be read: {}", assignments.error().message);
  return {};
}

void Loop::note_absent() {
  std::map<std::string, std::string> absent;
  for (const Place& place : machine_->places()) {
    std::string& told = notes_[place.service];
    if (!place.note.empty() && place.note != told) spdlog::warn("service '{}': {}", place.service, place.note);
    told = place.note;
    report_.services.push_back(place.service);
    if (place.absent && !place.watched) absent[place.service] = place.why;
  }
  // Services of pods come under ever new names.
  std::erase_if(notes_, [this](const auto& note) { return place_of(machine_->places(), note.first) == nullptr; });
  std::erase_if(compared_, [this](const auto& name) { return place_of(machine_->places(), name) == nullptr; });
  for (const auto& [service, why] : absent) {
    const auto told = absent_.find(service);
    if (told == absent_.end()) {
      spdlog::warn("service '{}' is not there: {}; the agent leaves it out until it comes", service, why);
    } else if (told->second != why) {
      spdlog::warn("service '{}' is still not there: {}", service, why);
    }
    report_.absent.push_back(service);
  }
  for (const auto& [service, why] : absent_) {
    const Place* place = place_of(machine_->places(), service);
    if (place != nullptr && !place->absent) spdlog::info("service '{}' is there", service);
  }
  absent_ = std::move(absent);
}

void Loop::note_watched() {
  std::map<std::string, std::string> watched;
  for (const Place& place : machine_->places()) {
    if (!place.watched) continue;
    watched[place.service] = place.why;
    if (!watched_.contains(place.service)) {
      spdlog::warn("service '{}' is watched, not managed: {}", place.service, place.why);
    }
    report_.watched.push_back(place.service);
  }
  watched_ = std::move(watched);
}

void Loop::idle(double now_s) {
  spdlog::debug("no service is there, so the agent asks for no decision");
  (void)memory_.silence.answered(now_s);
  memory_.outcome.reset();
  report_.idle = true;
}

// A dry run answers with what its decisions would have set, so that the policy moves on.
std::vector<Assignment> Loop::in_force() {
  std::vector<Assignment> held = read_back();
  if (memory_.supposing && same_names(memory_.supposing->held, held)) return memory_.supposing->held;
  memory_.supposing.reset();  // services came or went: it divides the node among others
  return held;
}

void Loop::prime(double now_s) {
  constexpr auto before_the_first = std::numeric_limits<std::uint64_t>::max();
  auto missing = machine_->missing();
  const Interval interval{before_the_first, now_s, config_->interval_s};
  (void)sensors_->read_host(interval);
  (void)sensors_->read(interval, read_back(), machine_->places(), missing);
}

// A partition of 4 units is four CPUs or less than half a CPU, and the state of a policy has such numbers in it.
void Loop::follow_units(const Platform& platform) {
  const Units now{platform.core_quantum, platform.mba ? platform.mba->unit : ""};
  const std::optional<Units> before = std::exchange(memory_.units, now);
  if (!before || *before == now) return;
  if (before->core_quantum != now.core_quantum) {
    spdlog::info("the core unit changes from {:g} to {:g} CPU; the policy begins anew", before->core_quantum,
                 now.core_quantum);
  } else {
    spdlog::info("the unit of memory bandwidth changes; the policy begins anew");
  }
  memory_.partition.reset();
  memory_.policy_state.reset();
}

// Then every decision with quotas is refused, and no fallback comes, since the server answers.
void Loop::note_minimums(const Observation& observation) {
  std::uint64_t least = 0;
  for (const Service& service : observation.services) {
    if (service.min_cores > 1) least += service.min_cores;  // the default of one is nobody's wish
  }
  const bool above = least > observation.platform.cores;
  if (above && !minimums_told_) {
    spdlog::warn("min_cores of all services are {} cores together, this node has {}; lower limits.min_cores", least,
                 observation.platform.cores);
  }
  minimums_told_ = above;
}

Observation Loop::observe(double now_s) {
  Observation observation;
  observation.node = config_->node;
  observation.seq = ++memory_.seq;
  observation.time_s = now_s;
  // a first turn has no turn before it
  constexpr double shortest_s = 1e-3;
  const double since_last_s = memory_.last_turn_s ? now_s - *memory_.last_turn_s : config_->interval_s;
  observation.interval_s = std::max(since_last_s, shortest_s);
  memory_.last_turn_s = now_s;
  observation.policy = config_->policy;
  observation.platform = machine_->platform();
  follow_units(observation.platform);
  note_absent();
  note_watched();
  observation.assignments = in_force();
  if (!same_names(observation.assignments, memory_.applied)) {
    memory_.partition.reset();  // it divides the node among others than those who are there now
  } else if (memory_.partition && observation.assignments != memory_.applied) {
    // The server must not build on an allocation that is no longer there.
    spdlog::warn("another program changed the allocation: {}",
                 fmt::join(changes_in_words(memory_.applied, observation.assignments), ", "));
    memory_.partition.reset();
    report_.changed_by_others = true;
  }
  observation.partition = memory_.partition;
  observation.outcome = memory_.outcome;
  observation.policy_state = memory_.policy_state;
  observation.missing = machine_->missing();
  const Interval interval{observation.seq, now_s, observation.interval_s};
  observation.host = sensors_->read_host(interval);
  observation.services = sensors_->read(interval, dry_run_ ? read_back() : observation.assignments, machine_->places(),
                                        observation.missing);
  set_core_limits(observation.services, *config_, observation.platform);
  note_minimums(observation);
  note_missing(observation.missing);
  note_targets(observation.services);
  report_.host = observation.host;
  for (const Service& service : observation.services) {
    if (service.counters.run_delay_s) report_.run_delay_s[service.name] = *service.counters.run_delay_s;
  }
  for (const Service& service : sensors_->watched()) {
    if (service.counters.run_delay_s) report_.run_delay_s[service.name] = *service.counters.run_delay_s;
  }
  for (const auto& [service, why] : watched_) observation.missing["service." + service] = why;
  for (const auto& [service, why] : absent_) observation.missing["service." + service] = why;
  if (dry_run_) observation.missing.emplace("dry_run", why_dry);
  for (const std::string& excess :
       bandwidth_watch_.look(observation.platform, observation.assignments, observation.services)) {
    spdlog::warn("{}", excess);
  }
  assignments_ = observation.assignments;
  return observation;
}

void Loop::note_targets(const std::vector<Service>& services) {
  for (const Service& service : services) {
    if (!service.target_ms) continue;
    const std::optional<double> measured = latency_at_target(service);
    if (measured) note_odd_target(service, *measured);
    (!measured                        ? report_.unmeasured
     : *measured > *service.target_ms ? report_.missed
                                      : report_.met)
        .push_back(service.name);
  }
}

// A target that was typed in seconds is missed or met for ever, without a word. Only the first latency counts: later
// ones may be far away since something happened.
void Loop::note_odd_target(const Service& service, double measured_ms) {
  if (!compared_.insert(service.name).second) return;
  constexpr double far_above = 20;
  constexpr double far_below = 100;
  const double target_ms = *service.target_ms;
  if (measured_ms <= far_above * target_ms && measured_ms * far_below >= target_ms) return;
  spdlog::warn("service '{}': {} is {:.4g} ms, far from its target of {:.4g} ms; target_ms counts milliseconds",
               service.name, service.percentile, measured_ms, target_ms);
}

// The server may name whom it likes; what goes to the cluster are services of this node.
void Loop::note_infeasible(const Decision& decision) {
  report_.infeasible = decision.infeasible.has_value();
  report_.infeasible_words = decision.infeasible.value_or("");
  for (const std::string& service : decision.infeasible_services) {
    if (place_of(machine_->places(), service) != nullptr) report_.infeasible_services.push_back(service);
  }
}

void Loop::note_interrupts() {
  report_.interrupts = machine_->interrupts();
  const std::string& plan = report_.interrupts.plan;
  if (plan == interrupt_plan_) return;
  const char* would = dry_run_ ? "interrupts would be moved" : "interrupts are kept off the CPUs of services";
  spdlog::info("{}: {}", would, plan.empty() ? "none, all stay as found" : plan);
  interrupt_plan_ = plan;
}

void Loop::note_missing(const std::map<std::string, std::string>& missing) {
  for (const auto& [what, why] : missing) {
    if (!missing_.contains(what)) spdlog::warn("{} is missing: {}", what, why);
  }
  for (const auto& [what, why] : missing_) {
    if (!missing.contains(what)) spdlog::info("{} is available again", what);
  }
  missing_ = missing;
  for (const auto& [what, why] : missing) report_.missing.push_back(what);
}

Answer Loop::ask(const Observation& observation) {
  const double start_s = monotonic_s();
  Answer answer = server_->ask(observation);
  constexpr double ms_per_s = 1000;
  report_.server_ms = (monotonic_s() - start_s) * ms_per_s;
  return answer;
}

void Loop::obey(const Decision& decision, const std::vector<Assignment>& before, double now_s) {
  memory_.policy_state = decision.policy_state;
  Outcome outcome = machine_->apply(decision, dry_run_, memory_.supposing ? before : std::vector<Assignment>());
  outcome.seq = decision.seq;
  if (outcome.status == OutcomeStatus::DryRun) {
    report_.outcome = outcome;
    suppose(decision, before);
    return;
  }
  std::vector<Assignment> after = outcome.status == OutcomeStatus::Unchanged ? before : in_force();
  assignments_ = after;
  tell(decision, outcome, before, after);
  record(decision, outcome, before, after, now_s);
  report_.outcome = outcome;
  note_infeasible(decision);
  if (outcome.status == OutcomeStatus::RolledBack || outcome.status == OutcomeStatus::Failed)
    report_.count(KernelWork::Apply);
  if (took_effect(outcome)) {
    memory_.partition = decision.partition;
    memory_.applied = std::move(after);
  } else if (outcome.status == OutcomeStatus::RolledBack) {
    memory_.applied = std::move(after);  // as before, up to what the kernel rounds
  } else if (outcome.status == OutcomeStatus::Failed) {
    memory_.partition.reset();
  }
  memory_.outcome = std::move(outcome);
}

void Loop::suppose(const Decision& decision, const std::vector<Assignment>& before) {
  const std::vector<Assignment>& found = memory_.supposing ? memory_.supposing->found : before;
  std::vector<Assignment> after = osml::suppose(before, decision, found);
  if (after != before) {
    spdlog::info("decision {} would set: {}", decision.seq, fmt::join(changes_in_words(before, after), ", "));
    for (const Reason& reason : decision.reasons) spdlog::info("  reason: {}", reason.text);
  }
  const std::string infeasible = decision.infeasible.value_or("");
  if (!infeasible.empty() && infeasible != infeasible_)
    spdlog::warn("this node cannot satisfy its services: {}", infeasible);
  infeasible_ = infeasible;
  note_infeasible(decision);
  const auto status = after == before ? OutcomeStatus::Unchanged : OutcomeStatus::Applied;
  memory_.outcome = Outcome{decision.seq, status, "supposed by a dry run", std::nullopt};
  memory_.partition = decision.partition;
  memory_.applied = after;
  assignments_ = after;
  memory_.supposing = Supposing{found, std::move(after)};
}

void Loop::record(const Decision& decision, const Outcome& outcome, const std::vector<Assignment>& before,
                  const std::vector<Assignment>& after, double now_s) {
  if (dry_run_) return;
  const Status recorded = audit_->record(now_s, decision, outcome, before, after, report_.absent);
  const std::string error = recorded ? "" : recorded.error().message;
  if (!error.empty() && error != audit_error_) spdlog::warn("the audit log cannot be written: {}", error);
  if (error.empty() && !audit_error_.empty()) spdlog::info("the audit log can be written again");
  audit_error_ = error;
}

void Loop::tell(const Decision& decision, const Outcome& outcome, const std::vector<Assignment>& before,
                const std::vector<Assignment>& after) {
  if (outcome.status == OutcomeStatus::Refused || outcome.status == OutcomeStatus::RolledBack ||
      outcome.status == OutcomeStatus::Failed) {
    // The same again every interval is no news.
    const bool news = outcome.message != undone_;
    spdlog::log(news ? spdlog::level::err : spdlog::level::debug, "decision {} of policy {} has status {}: {}",
                decision.seq, decision.policy, text_of(outcome.status), outcome.message);
    undone_ = outcome.message;
    if (!news) return;
  } else if (outcome.status == OutcomeStatus::Applied) {
    spdlog::info("decision {} applied in {:.1f} ms: {}", decision.seq, outcome.duration_ms.value_or(0),
                 fmt::join(changes_in_words(before, after), ", "));
    if (!outcome.message.empty()) spdlog::warn("decision {}: {}", decision.seq, outcome.message);
  }
  if (took_effect(outcome)) undone_.clear();
  const auto level = outcome.status == OutcomeStatus::Unchanged ? spdlog::level::debug : spdlog::level::info;
  for (const Reason& reason : decision.reasons) spdlog::log(level, "  reason: {}", reason.text);
  const std::string infeasible = decision.infeasible.value_or("");
  if (!infeasible.empty() && infeasible != infeasible_)
    spdlog::warn("this node cannot satisfy its services: {}", infeasible);
  infeasible_ = infeasible;
}

void Loop::endure(const AskError& error, double now_s, bool asked) {
  if (error.retry_after_s) {
    memory_.silence.leave_in_peace(now_s, std::min(*error.retry_after_s, longest_peace_s) * config_->time_scale);
  }
  if (error.of_question && memory_.policy_state) {
    // It may be the state that is not accepted (another server, another version): the next question goes without.
    spdlog::info("the server refused the observation; the agent drops the saved state of the policy");
    memory_.policy_state.reset();
  }
  report_.failure = error.failure;
  report_.failure_in_words = error.message;
  report_.state = AgentState::Holding;
  const Silence::Step step = memory_.silence.failed(now_s, asked);
  report_.overdue = step >= Silence::Step::FallBack;
  switch (step) {
    case Silence::Step::First:
      spdlog::warn("no decision; the agent holds the allocation for {:g} s: {}", config_->hold_s, error.message);
      break;
    case Silence::Step::FallBack:
      spdlog::warn("no decision for {:.1f} s: {}", now_s - memory_.silence.since_s(), error.message);
      report_.fell_back = true;
      [[fallthrough]];
    case Silence::Step::Retry:
      if (!fall_back(now_s, report_.fell_back)) break;  // the next interval tries again
      memory_.silence.fallen_back();
      report_.state = AgentState::FallenBack;
      break;
    case Silence::Step::Over:
      report_.state = stays_even(now_s) ? AgentState::FallenBack : AgentState::Holding;
      [[fallthrough]];
    case Silence::Step::Hold:
      spdlog::debug("no decision: {}", error.message);
      break;
  }
}

bool Loop::fall_back(double now_s, bool first) {
  const bool even = config_->fallback == Fallback::Even;
  if (config_->fallback == Fallback::Hold) {
    spdlog::warn("fallback hold: the allocation stays as it is");
    return true;
  }
  if (dry_run_) {
    spdlog::warn("fallback {} would be applied now; a dry run changes nothing", even ? "even" : "release");
    return true;
  }
  if (first && even) spdlog::warn("fallback even: every service gets an equal share");
  if (first && !even) spdlog::warn("fallback release: the agent restores the settings from before its first change");
  const bool in_force = even ? share_evenly(now_s) : release(now_s);
  if (first && !in_force) spdlog::warn("the fallback is not in force; the agent tries again in each interval");
  if (!first && in_force) spdlog::info("the fallback is in force");
  return in_force;
}

bool Loop::share_evenly(double now_s) {
  // not the server's: its state and its last outcome stay as they are
  const auto state = memory_.policy_state;
  const auto outcome = memory_.outcome;
  obey(machine_->even_decision(), read_back(), now_s);
  memory_.policy_state = state;
  memory_.outcome = outcome;
  const bool in_force = report_.outcome && took_effect(*report_.outcome);
  even_cpus_ = in_force ? machine_->platform().cpus : std::string();
  return in_force;
}

// Equal shares are those of the services and CPUs that are there now. False where they can't be set.
bool Loop::stays_even(double now_s) {
  if (config_->fallback != Fallback::Even || dry_run_) return true;
  const bool same = same_names(assignments_, memory_.applied) && machine_->platform().cpus == even_cpus_;
  return same || share_evenly(now_s);
}

bool Loop::release(double now_s) {
  const Status restored = restore("release", "the server does not answer, so all settings are put back", now_s);
  memory_.partition.reset();
  const std::string error = restored ? "" : restored.error().message;
  if (!restored) report_.count(KernelWork::Restore);
  if (!error.empty() && error != release_error_) spdlog::error("fallback release failed: {}", error);
  release_error_ = error;
  return restored.ok();
}

Status Loop::restore(const std::string& policy, const std::string& why, double now_s) {
  const std::vector<Assignment> before = read_back();
  const double start_s = monotonic_s();
  Status restored = machine_->restore();
  constexpr double ms_per_s = 1000;
  const double lasted_ms = (monotonic_s() - start_s) * ms_per_s;
  assignments_ = read_back();  // nothing is throttled by the decision before
  const std::string error = restored ? "" : restored.error().message;
  // A restore that fails is tried again in each interval: the same again is no news.
  if (assignments_ != before || error != restore_error_) {
    Decision own;
    own.policy = policy;
    own.reasons.push_back({why, std::nullopt});
    const Outcome outcome{own.seq, restored ? OutcomeStatus::Applied : OutcomeStatus::Failed, error, lasted_ms};
    record(own, outcome, before, assignments_, now_s);
  }
  restore_error_ = error;
  return restored;
}

}  // namespace osml
