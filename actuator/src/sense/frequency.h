// Clock frequency from cpufreq, for every CPU that may be handed out.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/cpuset.h"
#include "base/kept_file.h"
#include "domain/interval.h"

namespace osml {

class FrequencySensor {
 public:
  // Wall time of one interval's readings. Kernels 4.13 to 5.18 let a reading sleep for 10 to 20 ms, and the agent has
  // one thread.
  static constexpr double most_s = 0.005;

  FrequencySensor(const fs::path& sysfs_root, const CpuSet& cpus, std::function<double()> wall_s = monotonic_s);

  // False where no CPU has cpufreq (virtual machines mostly).
  [[nodiscard]] bool available() const { return !files_.empty(); }
  // Mean over the CPUs in GHz; none where none of them could be read yet. Where the readings of an interval take too
  // long, the next interval goes on with the other CPUs, which have their last value until then.
  std::optional<double> mean_ghz(const CpuSet& cpus, const Interval& interval);

 private:
  void read_files();

  std::function<double()> wall_s_;
  std::vector<std::pair<unsigned, KeptFile>> files_;
  std::size_t next_ = 0;            // of files_
  std::map<unsigned, double> ghz_;  // newest of each CPU
  std::uint64_t interval_ = 0;
  bool told_ = false;  // that a reading is slow
};

}  // namespace osml
