// The log goes to standard error, as text or as one JSON object a line.
#pragma once

#include "config/config.h"

namespace osml {

// Sets level and format of spdlog's default logger. Callers use spdlog::info(...) and friends.
void configure_log(const LogConfig& log);

}  // namespace osml
