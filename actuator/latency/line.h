// The telemetry line that the agent reads.
#pragma once

#include <string>

#include "domain/types.h"

namespace osml::latency {

// One JSON object with interval_s and what is known of a latency, without its age. What is missing is left out.
std::string line_of(const Latency& latency, double length_s);

}  // namespace osml::latency
