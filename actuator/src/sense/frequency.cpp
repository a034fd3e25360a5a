#include "sense/frequency.h"

namespace osml {

namespace {

constexpr double khz_per_ghz = 1e6;

}  // namespace

FrequencySensor::FrequencySensor(const fs::path& sysfs_root, const CpuSet& cpus) {
  const fs::path root = sysfs_root / "devices/system/cpu";
  for (const unsigned cpu : cpus) {
    fs::path file = root / ("cpu" + std::to_string(cpu)) / "cpufreq/scaling_cur_freq";
    if (osml::exists(file)) files_.emplace(cpu, KeptFile(std::move(file)));
  }
}

std::optional<double> FrequencySensor::mean_ghz(const CpuSet& cpus, const Interval& interval) {
  if (interval.number != interval_) {
    interval_ = interval.number;
    ghz_.clear();
    for (auto& [cpu, file] : files_) {
      // an offline CPU answers EBUSY or 0: it has no frequency
      const auto khz = file.read_number();
      if (khz && *khz > 0) ghz_[cpu] = static_cast<double>(*khz) / khz_per_ghz;
    }
  }
  double sum = 0;
  std::size_t count = 0;
  for (const unsigned cpu : cpus) {
    const auto found = ghz_.find(cpu);
    if (found == ghz_.end()) continue;
    sum += found->second;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

}  // namespace osml
