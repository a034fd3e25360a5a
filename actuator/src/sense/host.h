// What the whole machine waits for: time that a hypervisor took, and pressure stalls.
#pragma once

#include <optional>
#include <string_view>

#include "base/cpuset.h"
#include "base/kept_file.h"
#include "domain/types.h"
#include "sense/pressure.h"

namespace osml {

struct CpuTimes {
  double total = 0, stolen = 0;  // clock ticks, sums over CPUs
};

// Times of these CPUs in /proc/stat; none where it has none of them.
std::optional<CpuTimes> cpu_times(std::string_view stat, const CpuSet& cpus);

class HostSensor {
 public:
  HostSensor(const fs::path& proc_root, CpuSet cpus);

  // Shares of this interval, as far as they can be read.
  Host read(const Interval& interval);
  [[nodiscard]] bool has_pressure() const { return pressure_.available(); }

 private:
  CpuSet cpus_;
  KeptFile stat_;
  Pressure pressure_;
  Rate total_, stolen_;
};

}  // namespace osml
