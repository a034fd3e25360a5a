#include "plan/domains.h"

#include <algorithm>
#include <map>

#include "base/cpuset.h"
#include "base/number.h"

namespace osml {

namespace {

using Refusal = std::optional<std::string>;
using Homes = std::map<std::string, unsigned>;  // service -> domain

struct Domain {
  CpuSet cpus;
  unsigned long cores = 0;
  unsigned long ways = 0;
};
using Domains = std::map<unsigned, Domain>;

// Those with CPUs that may be handed out.
Domains usable_domains(const Platform& platform) {
  Domains found;
  const auto usable = parse_cpulist(platform.cpus);
  for (const CacheDomain& domain : platform.domains) {
    const auto cpus = parse_cpulist(domain.cpus);
    if (!usable || !cpus) continue;
    const CpuSet common = intersect(*cpus, *usable);
    if (!common.empty()) found[domain.id].cpus = common;
  }
  return found;
}

std::string known_ids(const Domains& domains) {
  std::string ids;
  for (const auto& [id, domain] : domains) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
  return ids.empty() ? "none" : ids;
}

Refusal check_homes(const Partition& partition, Homes& homes) {
  for (const Region& region : partition.regions) {
    const std::string first = region.owners.empty() ? "" : region.owners.front();
    if (!region.domain) {
      return "partition: the region of '" + first + "' names no cache domain, but other regions do; name one in each";
    }
    for (const std::string& owner : region.owners) {
      const unsigned home = homes.emplace(owner, *region.domain).first->second;
      if (home == *region.domain) continue;
      return "partition: service '" + owner + "' has regions in cache domains " + std::to_string(home) + " and " +
             std::to_string(*region.domain) + ", expected one domain for all its regions";
    }
  }
  return {};
}

Refusal check_counts(const Partition& partition, const Platform& platform, Domains& domains) {
  for (const Region& region : partition.regions) {
    const auto found = domains.find(*region.domain);
    if (found == domains.end()) {
      return "partition: domain " + std::to_string(*region.domain) +
             " is no cache domain with usable CPUs of this node; known are " + known_ids(domains);
    }
    found->second.cores += region.cores;
    found->second.ways += region.ways;
  }
  for (const auto& [id, domain] : domains) {
    const std::string sum = "partition: the regions of cache domain " + std::to_string(id) + " sum up to ";
    if (domain.cores > domain.cpus.size()) {
      return sum + std::to_string(domain.cores) + " cores, expected at most the " + std::to_string(domain.cpus.size()) +
             " that it has; make a region smaller";
    }
    if (platform.ways && domain.ways > *platform.ways) {
      return sum + std::to_string(domain.ways) + " ways, expected at most the " + std::to_string(*platform.ways) +
             " that it has; make a region smaller";
    }
  }
  return {};
}

Refusal check_cpus(const Decision& decision, const Homes& homes, const Domains& domains) {
  for (const Assignment& assignment : decision.assignments) {
    const auto home = homes.find(assignment.service);
    if (home == homes.end()) continue;  // without any region: said elsewhere
    const CpuSet& inside = domains.at(home->second).cpus;
    const std::string expected = ", expected CPUs of cache domain " + std::to_string(home->second) + " (" +
                                 format_cpulist(inside) + "), where its region is";
    const auto cpus = parse_cpulist(assignment.cpus.value_or(""));
    if (assignment.cpus && cpus && is_subset(*cpus, inside)) continue;
    return "service '" + assignment.service +
           "': " + (assignment.cpus ? "cpus " + *assignment.cpus + " are not all in its domain" : "it has no cpus") +
           expected;
  }
  return {};
}

}  // namespace

bool names_domains(const Partition& partition) {
  return std::any_of(partition.regions.begin(), partition.regions.end(),
                     [](const Region& region) { return region.domain.has_value(); });
}

std::optional<std::string> domains_refusal(const Decision& decision, const Platform& platform) {
  if (!names_domains(decision.partition)) return {};
  if (platform.core_quantum != 1.0) {
    return "partition: regions name cache domains, but core_quantum is " + format_number(platform.core_quantum) +
           ", expected whole CPUs (1)";
  }
  Homes homes;
  if (Refusal refused = check_homes(decision.partition, homes)) return refused;
  Domains domains = usable_domains(platform);
  if (Refusal refused = check_counts(decision.partition, platform, domains)) return refused;
  return check_cpus(decision, homes, domains);
}

}  // namespace osml
