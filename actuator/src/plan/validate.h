// Every rule that a decision must keep on this machine. What breaks one is refused whole, before anything is touched.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/config.h"
#include "domain/types.h"
#include "node/knobs.h"
#include "plan/wanted.h"

namespace osml {

// One sentence that names the service, the field, the value and what was expected; nothing where the decision is fine.
// `excused`: services that the decision need not name, since they were not there when it was asked for. `held`: what
// steps begin at, of services that are in it; of others they begin at what the kernel has. `last`: what the last
// decision set, of services for which there was one.
std::optional<std::string> refusal(const Decision& decision, const Config& config, const Platform& platform,
                                   const std::vector<KnobSet>& knobs, const std::set<std::string>& excused = {},
                                   const std::vector<Assignment>& held = {},
                                   const std::map<std::string, Wanted>& last = {});

}  // namespace osml
