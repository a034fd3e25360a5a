// Files that steer the agent must not be changed by others: the agent moves other people's tasks on their word.
#pragma once

#include "base/files.h"

namespace osml {

// Error Input where somebody else than root and the agent's own user can change `path` (a file or directory that
// exists), or put another one in its place: by its owner, its mode, or those of a directory above it. In a sticky
// directory nobody can replace what is another's. Under sudo the caller and his private group count as root: he is it.
// The error names all that must change, not only the first.
Status refuse_untrusted(const fs::path& path, const std::string& what);
// Error Input where every user can read it.
Status refuse_readable(const fs::path& path, const std::string& what);
// The directory for journal, lock and audit log: created with mode 0700 where it is missing, refused where others
// can write to it.
Status prepare_state_directory(const fs::path& path);
// The same refusals; makes nothing.
Status check_state_directory(const fs::path& path);

}  // namespace osml
