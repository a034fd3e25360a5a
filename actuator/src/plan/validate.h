// Every rule that a decision must keep on this machine. What breaks one is refused whole, before anything is touched.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/config.h"
#include "domain/types.h"
#include "node/knobs.h"

namespace osml {

// One sentence that names the service, the field, the value and what was expected; nothing where the decision is fine.
// `excused`: services that the decision need not name, since they were not there when it was asked for. `held`: what
// steps begin at, of services that are in it; of others they begin at what the kernel has.
std::optional<std::string> refusal(const Decision& decision, const Config& config, const Platform& platform,
                                   const std::vector<KnobSet>& knobs, const std::set<std::string>& excused = {},
                                   const std::vector<Assignment>& held = {});

}  // namespace osml
