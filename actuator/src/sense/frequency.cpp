#include "sense/frequency.h"

#include <spdlog/spdlog.h>

namespace osml {

namespace {

constexpr double khz_per_ghz = 1e6;

}  // namespace

FrequencySensor::FrequencySensor(const fs::path& sysfs_root, const CpuSet& cpus, std::function<double()> wall_s)
    : wall_s_(std::move(wall_s)) {
  const fs::path root = sysfs_root / "devices/system/cpu";
  for (const unsigned cpu : cpus) {
    fs::path file = root / ("cpu" + std::to_string(cpu)) / "cpufreq/scaling_cur_freq";
    if (osml::exists(file)) files_.emplace_back(cpu, KeptFile(std::move(file)));
  }
}

void FrequencySensor::read_files() {
  const double start_s = wall_s_();
  double before_s = start_s;
  for (std::size_t count = 0; count < files_.size() && before_s - start_s < most_s; ++count) {
    auto& [cpu, file] = files_[next_];
    next_ = (next_ + 1) % files_.size();
    // an offline CPU answers EBUSY or 0: it has no frequency
    const auto khz = file.read_number();
    if (khz && *khz > 0) {
      ghz_[cpu] = static_cast<double>(*khz) / khz_per_ghz;
    } else {
      ghz_.erase(cpu);
    }
    const double after_s = wall_s_();
    if (after_s - before_s >= most_s && !std::exchange(told_, true)) {
      constexpr double ms_per_s = 1000;
      spdlog::warn(
          "the kernel took {:.0f} ms to tell the frequency of CPU {}; the agent reads few CPUs an interval, and "
          "frequencies are older than the interval",
          (after_s - before_s) * ms_per_s, cpu);
    }
    before_s = after_s;
  }
}

std::optional<double> FrequencySensor::mean_ghz(const CpuSet& cpus, const Interval& interval) {
  if (interval.number != interval_) {
    interval_ = interval.number;
    read_files();
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
