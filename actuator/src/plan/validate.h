// Every rule that a decision must keep on this machine. What breaks one is refused whole, before anything is touched.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "domain/types.h"
#include "node/knobs.h"

namespace osml {

// One sentence that names the service, the field, the value and what was expected; nothing where the decision is fine.
std::optional<std::string> refusal(const Decision& decision, const Config& config, const Platform& platform,
                                   const std::vector<KnobSet>& knobs);

}  // namespace osml
