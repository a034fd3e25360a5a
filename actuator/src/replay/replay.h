// Applies what was decided once more, decision by decision, through the path that the daemon's own decisions take, and
// compares what comes of it with what came of it then. Knows nothing of waiting, signals or printing.
#pragma once

#include <optional>
#include <vector>

#include "daemon/machine.h"
#include "plan/suppose.h"
#include "replay/record_file.h"

namespace osml {

struct Replayed {
  RecordedDecision recorded;
  Outcome outcome;             // of now
  std::optional<bool> agrees;  // none where it can't be said
};

// Whether both came to the same: `applied` and `unchanged` do, since which of them it is hangs on what was there
// before. A look that wrote nothing (`dry_run`) tells only whether the decision is legal, so a kernel's refusal on the
// other side can't be compared.
std::optional<bool> same_effect(const Outcome& now, const std::optional<Outcome>& then);

// As the daemon does in a turn: take in what was born meanwhile, then apply. Dry: only plan; steps begin at what is
// supposed, which then has what the decision would have set. `found`: what there was before the first decision.
Replayed replay_one(Machine& machine, RecordedDecision recorded, bool dry_run, const std::vector<Assignment>& found,
                    std::optional<Supposing>& supposing);

}  // namespace osml
