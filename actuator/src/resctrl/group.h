// Groups of resctrl: making, removing, and moving threads. A group of ours is called osml-<service>, so that other
// users of resctrl know whose it is.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "resctrl/info.h"

namespace osml::resctrl {

inline constexpr std::string_view group_prefix = "osml-";

// osml-<service>.
std::string group_name(const std::string& service);
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

// Every group but the root: <root>/<name> and mon_groups below each, which come behind their parent.
Result<std::vector<fs::path>> all_groups(const fs::path& root);
// How many groups of resources there may be at once, the root and the groups of others left out: `ours` are the names
// of the agent's own. None where the machine does not allocate. Each needs a class and, where the machine monitors, an
// RMID.
std::optional<unsigned> room_for_groups(const fs::path& root, const Info& info, const std::set<std::string>& ours);
// Whether the group, or the one above it, carries our name.
bool is_ours(const fs::path& root, const fs::path& group);

}  // namespace osml::resctrl
