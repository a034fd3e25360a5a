// CPU time, throttling, threads and memory of one service: from its cgroup (v2, else v1), else from /proc.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "base/kept_file.h"
#include "base/result.h"
#include "config/config.h"
#include "domain/interval.h"
#include "sense/pressure.h"
#include "sense/processes.h"

namespace osml {

class UsageSensor {
 public:
  UsageSensor(const Roots& roots, Match match);

  // Fills cpu_usage_cores, throttled_s, threads, rss_mib, vms_mib and pressures as far as they can be read. The error
  // says why CPU time, the least that is expected, cannot.
  Status read(const Interval& interval, Counters& counters);

 private:
  Status open_cgroup();
  std::optional<double> cgroup_cpu_s();
  std::optional<double> cgroup_throttled_s();
  void read_memory(Counters& counters);
  void read_pressure(const Interval& interval, Counters& counters);

  Roots roots_;
  Match match_;
  Processes processes_;
  bool v2_ = false;
  std::optional<KeptFile> cpu_file_;    // v2 cpu.stat, v1 cpuacct.usage
  std::optional<KeptFile> quota_file_;  // v1 cpu.stat; v2 has it in cpu_file_
  std::optional<KeptFile> memory_file_;
  std::optional<KeptFile> memory_stat_;  // together with memory_file_
  std::optional<Pressure> pressure_;     // v2 only
  std::optional<double> throttled_total_s_;
  Rate cpu_;
  Rate throttled_;
};

}  // namespace osml
