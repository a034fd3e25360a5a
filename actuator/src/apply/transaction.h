// Executes a plan on the machine: each step is written, read back and compared; the first that fails undoes
// everything before it. Knows nothing of files: it talks to knobs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/knob.h"
#include "plan/plan.h"

namespace osml {

// A change and the knob that makes it, with the snapshot that undoes it.
struct Prepared {
  Change change;
  Knob* knob = nullptr;
  std::string snapshot;
};

enum class Ending { Applied, RolledBack, Failed };

struct Execution {
  Ending ending = Ending::Applied;
  std::string message;  // the step that failed and why; for Failed also what could not be undone
};

// Crash tests: OSML_CRASH_AFTER_STEP=n kills the process (SIGKILL, as a power cut would) after n steps of a
// transaction. Honoured only when the binary was started with --fault-injection.
class CrashPoint {
 public:
  CrashPoint() = default;
  static CrashPoint from_environment();
  // To be called after each step.
  void step();

 private:
  std::optional<unsigned long> remaining_;
};

Execution execute(const std::vector<Prepared>& changes, const std::vector<Step>& steps, CrashPoint& crash);

}  // namespace osml
