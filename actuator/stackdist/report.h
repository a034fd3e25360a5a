// What was counted, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "shared_model.h"

namespace osml::stackdist {

// Histograms have one place for each depth from 1 to `ways`, then `beyond` (seen before, fell off) and `cold` (never
// seen). `slices` are stretches of the run with equally many instructions, `groups` disjoint sets of the cache.
nlohmann::json report(const SharedModel& model);

}  // namespace osml::stackdist
