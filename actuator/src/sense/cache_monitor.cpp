#include "sense/cache_monitor.h"

#include "base/units.h"
#include "resctrl/monitor.h"

namespace osml {

bool CacheMonitor::has_other_domains(double now_s) {
  if (group_.empty() || now_s - looked_s_ < resctrl::seconds_between_looks) return false;
  looked_s_ = now_s;
  const auto names = list_directory(fs::path(group_) / "mon_data");
  return names && *names != names_;
}

void CacheMonitor::scan(const std::string& group) {
  group_ = group;
  rescan_ = false;
  names_.clear();
  for (Event* event : {&occupancy_, &local_, &total_}) event->clear();
  if (group.empty()) return;
  const fs::path data = fs::path(group) / "mon_data";
  const auto names = list_directory(data);
  if (!names) {
    rescan_ = true;
    return;
  }
  names_ = *names;
  for (const std::string& name : *names) {
    // mon_sub_L3_* are parts of mon_L3_*, other prefixes are other resources
    if (name.rfind("mon_L3_", 0) != 0) continue;
    const auto watch = [directory = data / name](Event& event, const char* file) {
      if (osml::exists(directory / file)) event.emplace_back(directory / file);
    };
    watch(occupancy_, "llc_occupancy");
    watch(local_, "mbm_local_bytes");
    watch(total_, "mbm_total_bytes");
  }
}

std::optional<double> CacheMonitor::value(Domain& domain) {
  const auto text = domain.file.read();
  // ENODEV: group or domain has gone under the open file
  if (!text) rescan_ = true;
  const resctrl::Reading reading = text ? resctrl::parse_reading(*text) : resctrl::Reading{};
  if (reading.state != resctrl::ReadingState::Value) return std::nullopt;
  return static_cast<double>(reading.value);
}

std::optional<double> CacheMonitor::sum(Event& event) {
  double bytes = 0;
  bool known = !event.empty();
  for (Domain& domain : event) {
    const auto read = value(domain);
    known = known && read;
    bytes += read.value_or(0);
  }
  return known ? std::optional(bytes) : std::nullopt;
}

std::optional<double> CacheMonitor::growth(Event& event) {
  double bytes = 0;
  bool known = !event.empty();
  for (Domain& domain : event) {
    const auto read = value(domain);
    if (!read) domain.rate.forget();
    const auto grown = read ? domain.rate.grown(*read) : std::nullopt;
    known = known && grown;
    bytes += grown.value_or(0);
  }
  return known ? std::optional(bytes) : std::nullopt;
}

void CacheMonitor::read(const std::string& group, const Interval& interval, Counters& counters) {
  if (rescan_ || group != group_ || has_other_domains(interval.time_s)) {
    scan(group);
    looked_s_ = interval.time_s;
  }
  if (const auto bytes = sum(occupancy_)) counters.llc_occupancy_mib = *bytes / bytes_per_mib;
  const auto gbps = [&interval, this](Event& event) -> std::optional<double> {
    const auto grown = growth(event);
    if (!grown) return std::nullopt;
    return *grown / bytes_per_gb / interval.length_s;
  };
  counters.bandwidth_gbps = gbps(local_);
  counters.bandwidth_total_gbps = gbps(total_);
}

}  // namespace osml
