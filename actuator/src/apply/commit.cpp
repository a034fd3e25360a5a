// One transaction of the actuator, around execute(): lock, journal before, journal after.
#include <algorithm>

#include "apply/node_state.h"

namespace osml {

namespace {

Outcome nothing_done(const Decision& decision, const Error& error) {
  return {decision.seq, OutcomeStatus::Failed, error.message + "; nothing was changed", std::nullopt};
}

const KnobSet& set_of(const std::vector<const KnobSet*>& knobs, const std::string& service) {
  return **std::find_if(knobs.begin(), knobs.end(), [&](const KnobSet* set) { return set->service == service; });
}

// In the order of the steps, each knob once.
std::vector<Saved> pending_of(const std::vector<Prepared>& changes, const std::vector<Step>& steps,
                              const std::vector<const KnobSet*>& knobs) {
  std::vector<Saved> pending;
  std::vector<bool> listed(changes.size());
  for (const Step& step : steps) {
    if (listed[step.change]) continue;
    listed[step.change] = true;
    const Prepared& prepared = changes[step.change];
    pending.push_back({set_of(knobs, prepared.change.service).name(*prepared.knob), prepared.snapshot});
  }
  return pending;
}

}  // namespace

Outcome Actuator::State::commit(const Decision& decision, const std::map<std::string, Wanted>& wanted,
                                const std::vector<Prepared>& changes, const std::vector<Step>& steps) {
  const auto tree = lock_resctrl();
  if (!tree) return nothing_done(decision, tree.error());
  const Journal before = journal;  // with what an earlier transaction left to undo
  const std::vector<Saved> unfinished = give_up_undoing();
  journal.pending = pending_of(changes, steps, all_knobs());
  for (const Saved& saved : unfinished) {
    const bool listed = std::any_of(journal.pending.begin(), journal.pending.end(),
                                    [&](const Saved& one) { return same_knob(one.name, saved.name); });
    if (!listed) journal.pending.push_back(saved);
  }
  if (const Status noted = note_originals(wanted); !noted) {
    journal = before;
    return nothing_done(decision, noted.error());
  }
  if (const Status saved = keep_journal(); !saved) {
    journal = before;
    return nothing_done(decision, saved.error());
  }
  const Execution execution = execute(changes, steps, crash);
  // After a failed undo the transaction stays in the journal: the next call or start tries again to undo it.
  if (execution.ending == Ending::Failed) return {decision.seq, OutcomeStatus::Failed, execution.message, std::nullopt};
  if (execution.ending == Ending::RolledBack) journal = before;
  if (execution.ending == Ending::Applied) {
    remember(wanted);
    journal.pending.clear();
  }
  std::string message = execution.message;
  if (const Status saved = keep_journal(); !saved) {
    message += (message.empty() ? "" : "; ") + saved.error().message +
               "; a restart of the agent undoes this decision until the journal is saved";
  }
  if (execution.ending == Ending::RolledBack) return {decision.seq, OutcomeStatus::RolledBack, message, std::nullopt};
  return {decision.seq, OutcomeStatus::Applied, message, std::nullopt};
}

}  // namespace osml
