#include "daemon/bandwidth_watch.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/cpuset.h"
#include "base/units.h"

namespace osml {

namespace {

constexpr double allowed_excess = 1.1;

// Cache domains in which the service runs: in each of them it has its throttle.
double domains_of(const Platform& platform, const Assignment& assignment) {
  const auto own = assignment.cpus ? parse_cpulist(*assignment.cpus) : Result<CpuSet>(CpuSet{});
  const auto inside = [&](const CacheDomain& domain) {
    const auto cpus = parse_cpulist(domain.cpus);
    return !own || own->empty() || !cpus || !intersect(*own, *cpus).empty();
  };
  const auto count = std::count_if(platform.domains.begin(), platform.domains.end(), inside);
  return static_cast<double>(std::max<std::ptrdiff_t>(count, 1));
}

// GB/s of a throttle on the whole node; none where it is no bandwidth.
std::optional<double> wanted_gbps(const Platform& platform, const Assignment& assignment) {
  if (!platform.mba || !assignment.mba || platform.mba->unit == "percent") return std::nullopt;
  constexpr double eighths = 8;
  const double gbps = *assignment.mba / (platform.mba->unit == "mbps" ? mb_per_gb : eighths);
  return platform.mba->per_domain ? gbps * domains_of(platform, assignment) : gbps;
}

std::string sentence(const std::string& service, double wanted, double measured) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "memory bandwidth of %s: throttled to %.2f GB/s, measured %.2f GB/s",
                service.c_str(), wanted, measured);
  return text.data();
}

}  // namespace

std::vector<std::string> BandwidthWatch::look(const Platform& platform, const std::vector<Assignment>& assignments,
                                              const std::vector<Service>& services) {
  std::vector<std::string> said;
  std::erase_if(over_, [&](const std::string& name) {
    return std::none_of(assignments.begin(), assignments.end(),
                        [&](const Assignment& one) { return one.service == name; });
  });
  for (const Assignment& assignment : assignments) {
    const auto service = std::find_if(services.begin(), services.end(),
                                      [&](const Service& one) { return one.name == assignment.service; });
    if (service == services.end()) continue;
    const Counters& counters = service->counters;
    const auto measured = counters.bandwidth_total_gbps ? counters.bandwidth_total_gbps : counters.bandwidth_gbps;
    const auto wanted = wanted_gbps(platform, assignment);
    if (!measured || !wanted || *measured <= *wanted * allowed_excess) {
      over_.erase(assignment.service);
    } else if (over_.insert(assignment.service).second) {
      said.push_back(sentence(assignment.service, *wanted, *measured));
    }
  }
  return said;
}

}  // namespace osml
