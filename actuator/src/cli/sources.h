// Where services come from, for show and probe: the configuration, the annotations of a pod, or a LatencyTarget.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>

#include "apply/actuator.h"

namespace osml::cli {

// "services": [{"name", "source", "watched"}], "refused_pods": {pod: why}, "waiting_pods": {pod: why},
// "refused_targets": {LatencyTarget: why}; source null = the configuration.
void add_sources(nlohmann::ordered_json& document, const Actuator& actuator);
// One line for each kind that there is: services of pods, those that are only watched, pods that are refused or wait
// for another pod, LatencyTargets that are refused.
void print_sources(std::ostream& out, const Actuator& actuator);

}  // namespace osml::cli
