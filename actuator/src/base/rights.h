// What this process may change, and the error for what it may not.
#pragma once

#include <string>

#include "base/result.h"

namespace osml {

// CAP_SYS_NICE: it may bind and schedule the tasks of other users.
bool may_set_others();
// As errno_error, for a setting that the kernel did not take. Where the caller is not root and that is why, it says so.
Error refused_setting(int code, const std::string& what);

}  // namespace osml
