// CPU quota: so many microseconds of CPU time in each period, over all CPUs together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace osml {

struct Quota {
  std::optional<std::int64_t> quota_us;  // absent: no limit
  std::int64_t period_us = 100'000;

  [[nodiscard]] std::optional<double> cpus() const;
};

// Periods are 10 ms, so that a throttled service waits for milliseconds and not for a tenth of a second, and longer
// for quotas so small that the kernel's least of 1000 us would be more than wanted. The kernel takes 1 ms to 1 s.
Quota quota_for(double cpus);
// "50000 10000" or "max 100000" (cpu.max of cgroup v2).
std::optional<Quota> parse_cpu_max(std::string_view text);
std::string format_cpu_max(const Quota& quota);
// Equal up to the microseconds that rounding costs. Both as text in logical CPUs.
bool same_quota(const std::string& read, const std::string& wanted);

}  // namespace osml
