// What systemd is told of the daemon's state, by the protocol of sd_notify(3): one datagram to $NOTIFY_SOCKET. Without
// that variable nobody is told anything.
#pragma once

#include <string_view>

namespace osml {

// "READY=1", "STOPPING=1", "WATCHDOG=1".
void tell_service_manager(std::string_view state);
// Seconds between two signs of life that the service manager wants, half of its patience; 0 where it wants none.
double watchdog_interval_s();

}  // namespace osml
