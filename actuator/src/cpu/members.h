// Who a service is, in threads: the tasks of its cgroup (v2 with descendants, or v1), or of listed processes.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "base/files.h"
#include "config/config.h"

namespace osml {

// Directory of a cgroup path: <cgroup>/<path> on v2, <cgroup>/<controller>/<path> on v1 (first controller that has
// it, also "cpu,cpuacct"). Empty where it does not exist.
fs::path cgroup2_directory(const Roots& roots, const std::string& path);
fs::path cgroup1_directory(const Roots& roots, const std::string& controller, const std::string& path);

// Processes of a service, ascending. Gone processes are left out; an empty list is not an error.
Result<std::vector<pid_t>> member_pids(const Roots& roots, const Match& match);
// All their threads, ascending.
Result<std::vector<pid_t>> member_tids(const Roots& roots, const Match& match);

}  // namespace osml
