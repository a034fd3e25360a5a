// Files that decide what the agent does (configuration, token): whoever can write them owns the node.
#pragma once

#include <string>

#include "base/files.h"
#include "base/result.h"

namespace osml {

// Text of a regular file that not everybody may write, at most 1 MiB. `what` names it in the message.
Result<std::string> read_trusted(const fs::path& path, const std::string& what);

}  // namespace osml
