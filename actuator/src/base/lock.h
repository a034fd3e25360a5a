// flock(2): the advisory lock that the kernel's documentation asks of everybody who changes resctrl, and the one that
// keeps two agents off the same state directory. Released when the object goes, also by a crash.
#pragma once

#include <chrono>

#include "base/files.h"

namespace osml {

// Exclusive lock on an existing file or directory. Busy when somebody else still holds it after `patience`.
Result<Fd> lock_exclusive(const fs::path& path, std::chrono::milliseconds patience);
// Same on a file that is created (0600) where it does not exist.
Result<Fd> lock_file(const fs::path& path, std::chrono::milliseconds patience);

}  // namespace osml
