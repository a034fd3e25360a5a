#include "replay/replay.h"

#include <spdlog/spdlog.h>

#include "plan/suppose.h"

namespace osml {

namespace {

bool kernel_failed(const Outcome& outcome) {
  return outcome.status == OutcomeStatus::RolledBack || outcome.status == OutcomeStatus::Failed;
}

}  // namespace

std::optional<bool> same_effect(const Outcome& now, const std::optional<Outcome>& then) {
  if (!then) return std::nullopt;
  if (now.status == OutcomeStatus::DryRun || then->status == OutcomeStatus::DryRun) {
    if (kernel_failed(now) || kernel_failed(*then)) return std::nullopt;
    return (now.status == OutcomeStatus::Refused) == (then->status == OutcomeStatus::Refused);
  }
  return now.status == then->status || (took_effect(now) && took_effect(*then));
}

Replayed replay_one(Machine& machine, RecordedDecision recorded, bool dry_run, const std::vector<Assignment>& found,
                    std::optional<Supposing>& supposing) {
  if (!dry_run) {
    if (const Status reconciled = machine.reconcile(); !reconciled) {
      spdlog::warn("reconcile failed before decision {}: {}", recorded.decision.seq, reconciled.error().message);
    }
  }
  Outcome outcome = machine.apply(recorded.decision, dry_run, supposing ? supposing->held : std::vector<Assignment>());
  if (outcome.status == OutcomeStatus::DryRun) {
    supposing = Supposing{found, suppose(supposing ? supposing->held : found, recorded.decision, found)};
  }
  const std::optional<bool> agrees = same_effect(outcome, recorded.outcome);
  return {std::move(recorded), std::move(outcome), agrees};
}

}  // namespace osml
