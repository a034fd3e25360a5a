// Crash tests: OSML_CRASH_AFTER_STEP=n kills the process (SIGKILL, as a power cut would) after n steps of a
// transaction. Honoured only when the binary was started with --fault-injection.
#pragma once

#include <optional>

namespace osml {

class CrashPoint {
 public:
  CrashPoint() = default;
  static CrashPoint from_environment();
  // To be called after each step.
  void step();

 private:
  std::optional<unsigned long> remaining_;
};

}  // namespace osml
