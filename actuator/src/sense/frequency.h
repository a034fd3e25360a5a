// Clock frequency from cpufreq, once an interval for every CPU that may be handed out.
#pragma once

#include <map>
#include <optional>

#include "base/cpuset.h"
#include "base/kept_file.h"
#include "domain/interval.h"

namespace osml {

class FrequencySensor {
 public:
  FrequencySensor(const fs::path& sysfs_root, const CpuSet& cpus);

  // False where no CPU has cpufreq (virtual machines mostly).
  [[nodiscard]] bool available() const { return !files_.empty(); }
  // Mean over the CPUs in GHz; none where none of them can be read.
  std::optional<double> mean_ghz(const CpuSet& cpus, const Interval& interval);

 private:
  std::map<unsigned, KeptFile> files_;
  std::map<unsigned, double> ghz_;  // of interval_
  std::uint64_t interval_ = 0;
};

}  // namespace osml
