// Signals that end a command which changes the machine, in order: it restores first.
#pragma once

#include <csignal>

namespace osml::cli {

// SIGTERM, SIGINT and a terminal that goes (SIGHUP) are heard while the command waits. To be made before the machine is
// touched.
class Stops {
 public:
  Stops();
  // Sleeps until then; true where it was told to stop.
  bool told_until(double monotonic);

 private:
  sigset_t set_{};
};

}  // namespace osml::cli
