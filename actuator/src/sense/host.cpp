#include "sense/host.h"

#include <algorithm>
#include <utility>

namespace osml {

namespace {

// user nice system idle iowait irq softirq steal; guest time is part of user time.
constexpr std::size_t fields = 8;
constexpr std::size_t steal = 7;

}  // namespace

std::optional<CpuTimes> cpu_times(std::string_view stat, const CpuSet& cpus) {
  constexpr std::string_view cpu = "cpu";
  std::optional<CpuTimes> sum;
  for (std::string_view line : split_lines(stat)) {
    if (!line.starts_with(cpu)) break;  // the CPUs are first
    line.remove_prefix(cpu.size());
    const auto number = line.starts_with(' ') ? std::nullopt : leading_number(line);
    if (!number || !std::ranges::binary_search(cpus, *number)) continue;
    line.remove_prefix(std::min(line.find(' '), line.size()));
    const auto found = leading_numbers<fields>(line);
    if (!found) continue;
    if (!sum) sum = CpuTimes{};
    for (const std::uint64_t field : *found) sum->total += static_cast<double>(field);
    sum->stolen += static_cast<double>((*found)[steal]);
  }
  return sum;
}

HostSensor::HostSensor(const fs::path& proc_root, CpuSet cpus)
    : cpus_(std::move(cpus)),
      stat_(proc_root / "stat"),
      pressure_(proc_root / "pressure/cpu", proc_root / "pressure/memory", proc_root / "pressure/io") {}

Host HostSensor::read(const Interval& interval) {
  Host host;
  const PressureShares pressure = pressure_.read(interval);
  host.cpu_pressure = pressure.cpu;
  host.memory_pressure = pressure.memory;
  host.io_pressure = pressure.io;
  const auto text = stat_.read();
  const auto now = text ? cpu_times(*text, cpus_) : std::nullopt;
  if (!now) return host;
  const auto total = total_.grown(now->total);
  const auto stolen = stolen_.grown(now->stolen);
  if (total && stolen && *total > 0) host.steal = std::min(1.0, *stolen / *total);
  return host;
}

}  // namespace osml
