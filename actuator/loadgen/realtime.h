// The measuring program must not be what is measured: it takes precedence over everything that it drives.
#pragma once

#include <string>

namespace osml::loadgen {

// SCHED_FIFO where permitted, else nice -20 where permitted, else nothing; memory locked; exact timers.
// Says which it became: "fifo", "nice -20" or "normal".
std::string take_precedence();

}  // namespace osml::loadgen
