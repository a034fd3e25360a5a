// Putting back what the journal says: after a crash, and at the end.
#pragma once

#include <vector>

#include "apply/journal.h"
#include "resctrl/info.h"

namespace osml {

// Knob::restore() where what has gone (task, cgroup, group) needs nothing more. What nobody can look at has not gone.
Status put_back(Knob& knob, const std::string& snapshot);

// Restores from the last to the first. Entries that could be put back are taken out of `saved`; the error names those
// that could not, and the rest has been tried nevertheless.
Status restore_all(std::vector<Saved>& saved, const Roots& roots, const Result<resctrl::Info>& info);

}  // namespace osml
