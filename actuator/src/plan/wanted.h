// A decision in the knobs' terms.
#pragma once

#include <map>
#include <string>

#include "base/knob.h"
#include "domain/types.h"

namespace osml {

// Aspect -> value. A mask or a bandwidth needs the service's group with its tasks in it; those are added.
using Wanted = std::map<Aspect, std::string>;

Wanted wanted_values(const Assignment& assignment);

}  // namespace osml
