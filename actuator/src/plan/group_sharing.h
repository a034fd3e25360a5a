// Which cache group each service is in. A machine has few groups: where each service cannot have its own, services with
// the same ways and the same bandwidth throttle share one, the group of one of them. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "plan/wanted.h"

namespace osml {

// Groups that the agent may have at once; none = there is no limit.
using GroupLimit = std::optional<unsigned>;

// How many groups these services need at least: one for each distinct pair of ways and throttle. `alone`: services
// that share with nobody.
unsigned needed_groups(const std::map<std::string, Wanted>& services, const std::set<std::string>& alone);

// Lets equals share where there are more services with a group than `limit`: the host keeps its group, the others lose
// theirs and their tasks move to the host's. `existing`: services that have a group now; they are the hosts first, so
// that as few tasks as possible move.
void share_groups(std::map<std::string, Wanted>& services, GroupLimit limit, const std::set<std::string>& alone,
                  const std::set<std::string>& existing);

}  // namespace osml
