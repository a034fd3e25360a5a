// A dry run goes on as if its decisions had been applied.
#pragma once

#include <vector>

#include "domain/types.h"

namespace osml {

// What would be in force after the decision where `held` is in force now. What it leaves out stays.
std::vector<Assignment> suppose(std::vector<Assignment> held, const Decision& decision);

}  // namespace osml
