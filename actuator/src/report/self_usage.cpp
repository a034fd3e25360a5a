#include "report/self_usage.h"

#include <unistd.h>

#include <ctime>

#include "base/clock.h"

namespace osml {

double process_cpu_s() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

namespace {

std::optional<double> mib_in(std::string_view statm) {
  const std::size_t blank = statm.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  static const double mib_per_page = static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1024.0 * 1024.0);
  const auto pages = leading_number(statm.substr(blank));
  return pages ? std::optional<double>(static_cast<double>(*pages) * mib_per_page) : std::nullopt;
}

}  // namespace

std::optional<double> resident_mib() {
  const auto text = read_text("/proc/self/statm");
  return text ? mib_in(*text) : std::nullopt;
}

// The agent's own process is in the real /proc, whatever roots.proc says.
SelfMeter::SelfMeter() : statm_("/proc/self/statm"), last_wall_s_(monotonic_s()), last_cpu_s_(process_cpu_s()) {}

SelfUsage SelfMeter::read() {
  SelfUsage usage;
  const double wall_s = monotonic_s();
  const double cpu_s = process_cpu_s();
  if (wall_s > last_wall_s_) usage.cpu_pct = 100.0 * (cpu_s - last_cpu_s_) / (wall_s - last_wall_s_);
  last_wall_s_ = wall_s;
  last_cpu_s_ = cpu_s;
  if (const auto text = statm_.read(); text) usage.rss_mib = mib_in(*text);
  return usage;
}

}  // namespace osml
