// Groups of resctrl: making, removing, and moving threads. A group of ours is called osml-<service>, so that other
// users of resctrl know whose it is.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/files.h"

namespace osml::resctrl {

inline constexpr std::string_view group_prefix = "osml-";

// <root>/osml-<service>, or <root>/mon_groups/osml-<service> where the machine monitors but does not allocate.
fs::path group_path(const fs::path& root, const std::string& service, bool allocates);

// Makes the group; true = it is new, false = it was there and is adopted. A new one may hold threads that were born
// while the last owner of its class went away: they are put back into the root group. Capacity where the machine has
// no class left; EBUSY (counters still draining) is retried for about a second.
Result<bool> make_group(const fs::path& root, const fs::path& group);

// Removes the group; its threads fall back to the group above. Gone already = done.
Status remove_group(const fs::path& group);

// Threads in the group, ascending.
Result<std::vector<pid_t>> group_tasks(const fs::path& group);

// Moves these threads, in comma lists where the kernel takes them. Threads that have ended are skipped.
Status move_tasks(const fs::path& root, const fs::path& group, const std::vector<pid_t>& tids);

// Every group but the root: <root>/<name> and mon_groups below each.
std::vector<fs::path> all_groups(const fs::path& root);

}  // namespace osml::resctrl
