// Who a service is, in threads: the tasks of its cgroup (v2 or v1, with descendants), or of listed processes and the
// processes that these have started (a server's workers are the server).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "config/config.h"

namespace osml {

// Directory of a cgroup path: <cgroup>/<path> on v2, <cgroup>/<controller>/<path> on v1 (also where controllers are
// mounted together, "cpu,cpuacct"). Empty where it does not exist.
fs::path cgroup2_directory(const Roots& roots, const std::string& path);
fs::path cgroup1_directory(const Roots& roots, const std::string& controller, const std::string& path);
// The same where "does not exist" and "cannot be told" are two things.
Result<fs::path> find_cgroup2(const Roots& roots, const std::string& path);
Result<fs::path> find_cgroup1(const Roots& roots, const std::string& controller, const std::string& path);
// The directory that says who the members are, of v2 or else of the first v1 controller that has it.
Result<fs::path> member_directory(const Roots& roots, const std::string& path);
// Tells a cgroup from a later one at the same path. None where it does not exist, and on FUSE, whose numbers change.
Result<std::optional<std::uint64_t>> cgroup_inode(const Roots& roots, const std::string& path);
// The directory and everything below it, parents first. What vanishes meanwhile has nothing below it.
using ListDirectories = std::function<Result<std::vector<std::string>>(const fs::path&)>;
Result<std::vector<fs::path>> cgroup_tree(const fs::path& directory, const ListDirectories& list = list_subdirectories);

// Processes of a service, ascending. Gone processes are left out; an empty list is not an error.
Result<std::vector<pid_t>> member_pids(const Roots& roots, const Match& match);
// All their threads, ascending.
Result<std::vector<pid_t>> member_tids(const Roots& roots, const Match& match);
// The process that a thread belongs to; 0 where it has gone.
pid_t process_of(const fs::path& proc, pid_t tid);
// Field 22 of stat, counted behind the name, which may hold blanks and brackets. Empty where the thread has gone.
std::string thread_start_time(const fs::path& proc, pid_t tid);

}  // namespace osml
