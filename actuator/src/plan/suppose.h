// A dry run goes on as if its decisions had been applied.
#pragma once

#include <vector>

#include "domain/types.h"

namespace osml {

// What a dry run goes on from: what there was before its first decision, and what would be in force now.
struct Supposing {
  std::vector<Assignment> found;
  std::vector<Assignment> held;
};

// What would be in force after the decision where `held` is in force now. A service that it leaves out keeps its
// settings; a setting that it leaves out is given back, so it is as it was `found` before the first decision.
std::vector<Assignment> suppose(std::vector<Assignment> held, const Decision& decision,
                                const std::vector<Assignment>& found);

}  // namespace osml
