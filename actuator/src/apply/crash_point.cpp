#include "apply/crash_point.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "base/number.h"

namespace osml {

CrashPoint CrashPoint::from_environment() {
  CrashPoint point;
  const char* text = std::getenv("OSML_CRASH_AFTER_STEP");
  if (text == nullptr) return point;
  if (const auto steps = parse_unsigned(text)) point.remaining_ = static_cast<unsigned long>(*steps);
  return point;
}

void CrashPoint::step() {
  if (!remaining_) return;
  if (*remaining_ <= 1) ::kill(::getpid(), SIGKILL);
  --*remaining_;
}

}  // namespace osml
