// Files that steer the agent must not be writable by everybody: the agent moves other people's tasks on their word.
#pragma once

#include "base/files.h"

namespace osml {

// Error Input where `path` (a file or directory that exists) is writable by others. A sticky directory is no better.
Status refuse_world_writable(const fs::path& path, const std::string& what);
// The directory for journal, lock and audit log: created with mode 0700 where it is missing, refused where others
// can write to it.
Status prepare_state_directory(const fs::path& path);

}  // namespace osml
