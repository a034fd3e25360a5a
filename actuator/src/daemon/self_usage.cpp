#include "daemon/self_usage.h"

#include <unistd.h>

#include <ctime>

#include "daemon/clock.h"

namespace osml {

namespace {

double process_cpu_s() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

}  // namespace

// The agent's own process is in the real /proc, whatever roots.proc says.
SelfMeter::SelfMeter() : statm_("/proc/self/statm"), last_wall_s_(monotonic_s()), last_cpu_s_(process_cpu_s()) {}

SelfUsage SelfMeter::read() {
  SelfUsage usage;
  const double wall_s = monotonic_s();
  const double cpu_s = process_cpu_s();
  if (wall_s > last_wall_s_) usage.cpu_pct = 100.0 * (cpu_s - last_cpu_s_) / (wall_s - last_wall_s_);
  last_wall_s_ = wall_s;
  last_cpu_s_ = cpu_s;
  const auto text = statm_.read();
  const std::size_t blank = text ? text->find(' ') : std::string_view::npos;
  if (blank != std::string_view::npos) {
    static const double mib_per_page = static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1024.0 * 1024.0);
    if (const auto pages = leading_number(text->substr(blank))) {
      usage.rss_mib = static_cast<double>(*pages) * mib_per_page;
    }
  }
  return usage;
}

}  // namespace osml
