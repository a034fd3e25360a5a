// The processes of a service through /proc: CPU time, threads, memory. Files stay open; one read each an interval.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <vector>

#include "base/kept_file.h"
#include "domain/interval.h"

namespace osml {

struct ProcessTotals {
  std::optional<double> cpu_s;  // grown since the last interval
  std::optional<std::uint64_t> threads;
  std::optional<double> rss_mib, vms_mib;
};

class Processes {
 public:
  explicit Processes(fs::path proc_root) : root_(std::move(proc_root)) {}

  // Sums over the processes that are there. A process counts CPU time from its second interval on; what it used before
  // it was seen first is unknown. `with_cpu` is false where a cgroup counts CPU time already.
  ProcessTotals read(const std::vector<pid_t>& pids, bool with_cpu);

 private:
  struct Process {
    KeptFile status;
    KeptFile stat;
    Rate cpu;
  };
  void follow(const std::vector<pid_t>& pids);

  fs::path root_;
  std::map<pid_t, Process> processes_;
};

// utime + stime of /proc/PID/stat in clock ticks; the name in parentheses may hold anything.
std::optional<std::uint64_t> cpu_ticks(std::string_view stat);

}  // namespace osml
