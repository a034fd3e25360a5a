#include "sense/usage.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "cpu/members.h"

namespace osml {

UsageSensor::UsageSensor(const Roots& roots, Match match)
    : roots_(roots), match_(std::move(match)), processes_(roots.proc) {}

Status UsageSensor::open_cgroup() {
  if (cpu_file_) return done();
  if (const fs::path v2 = cgroup2_directory(roots_, *match_.cgroup); !v2.empty() && osml::exists(v2 / "cpu.stat")) {
    v2_ = true;
    cpu_file_.emplace(v2 / "cpu.stat");
    memory_file_.emplace(v2 / "memory.current");
    memory_stat_.emplace(v2 / "memory.stat");
    pressure_.emplace(v2 / "cpu.pressure", v2 / "memory.pressure", v2 / "io.pressure");
    return done();
  }
  const fs::path accounting = cgroup1_directory(roots_, "cpuacct", *match_.cgroup);
  if (accounting.empty() || !osml::exists(accounting / "cpuacct.usage")) {
    return Error{ErrorKind::Gone, "cgroup " + *match_.cgroup +
                                      " has neither cpu.stat (v2) nor cpuacct (v1); check that the cgroup exists"};
  }
  v2_ = false;
  pressure_.reset();
  cpu_file_.emplace(accounting / "cpuacct.usage");
  if (const fs::path cpu = cgroup1_directory(roots_, "cpu", *match_.cgroup); !cpu.empty()) {
    quota_file_.emplace(cpu / "cpu.stat");
  }
  if (const fs::path memory = cgroup1_directory(roots_, "memory", *match_.cgroup); !memory.empty()) {
    memory_file_.emplace(memory / "memory.usage_in_bytes");
    memory_stat_.emplace(memory / "memory.stat");
  }
  return done();
}

std::optional<double> UsageSensor::cgroup_cpu_s() {
  throttled_total_s_.reset();
  const auto text = cpu_file_->read();
  if (!text) return std::nullopt;
  if (!v2_) {
    const auto ns = leading_number(*text);
    return ns ? std::optional<double>(static_cast<double>(*ns) / ns_per_s) : std::nullopt;
  }
  if (const auto us = keyed_number(*text, "throttled_usec")) throttled_total_s_ = static_cast<double>(*us) / us_per_s;
  const auto us = keyed_number(*text, "usage_usec");
  return us ? std::optional<double>(static_cast<double>(*us) / us_per_s) : std::nullopt;
}

std::optional<double> UsageSensor::cgroup_throttled_s() {
  if (v2_) return throttled_total_s_;
  const auto text = quota_file_ ? quota_file_->read() : std::nullopt;
  const auto ns = text ? keyed_number(*text, "throttled_time") : std::nullopt;
  return ns ? std::optional<double>(static_cast<double>(*ns) / ns_per_s) : std::nullopt;
}

// What processes share counts once, other than in the sum over them. Files that nobody has used for a while are no need
// of the service: the kernel drops them first. Where that is not known, all is taken only if no process can be seen.
void UsageSensor::read_memory(Counters& counters) {
  const auto used = memory_file_ ? memory_file_->read_number() : std::nullopt;
  if (!used) return;
  const auto text = memory_stat_->read();
  const auto unused = text ? keyed_number(*text, v2_ ? "inactive_file" : "total_inactive_file") : std::nullopt;
  if (!unused && counters.rss_mib) return;
  counters.rss_mib = static_cast<double>(*used - std::min(*used, unused.value_or(0))) / bytes_per_mib;
}

void UsageSensor::read_pressure(const Interval& interval, Counters& counters) {
  if (!pressure_) return;
  const PressureShares shares = pressure_->read(interval);
  counters.cpu_pressure = shares.cpu;
  counters.memory_pressure = shares.memory;
  counters.io_pressure = shares.io;
}

Status UsageSensor::read(const Interval& interval, Counters& counters) {
  const auto members = member_pids(roots_, match_);
  const std::vector<pid_t> pids = members ? *members : std::vector<pid_t>();
  const ProcessTotals totals = processes_.read(pids, !match_.cgroup.has_value());
  counters.threads = totals.threads;
  counters.rss_mib = totals.rss_mib;
  counters.vms_mib = totals.vms_mib;
  if (!match_.cgroup) {
    if (totals.cpu_s) counters.cpu_usage_cores = *totals.cpu_s / interval.length_s;
    if (!members) return members.error();
    if (pids.empty()) return Error{ErrorKind::Gone, "none of the configured processes exists"};
    return done();
  }
  if (Status opened = open_cgroup(); !opened) return opened;
  const auto cpu_s = cgroup_cpu_s();
  if (!cpu_s) {
    Error error{ErrorKind::Gone, "CPU time cannot be read from " + cpu_file_->path().string()};
    cpu_file_.reset();  // made anew, perhaps: look again next time
    cpu_.forget();
    throttled_.forget();
    return error;
  }
  if (const auto grown = cpu_.grown(*cpu_s)) counters.cpu_usage_cores = *grown / interval.length_s;
  if (const auto throttled = cgroup_throttled_s()) counters.throttled_s = throttled_.grown(*throttled);
  read_pressure(interval, counters);
  read_memory(counters);
  return done();
}

}  // namespace osml
