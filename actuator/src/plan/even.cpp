#include "plan/even.h"

#include <algorithm>
#include <numeric>

#include "base/cpuset.h"
#include "base/mask.h"
#include "plan/core_limits.h"

namespace osml {

namespace {

std::vector<Share> core_bounds(const Config& config, const Platform& platform) {
  std::vector<Share> bounds;
  for (const ServiceConfig& service : config.services) {
    const CoreLimits limits = core_limits(service, config.cpu, platform);
    bounds.push_back({limits.least, std::min(limits.most.value_or(platform.cores), platform.cores)});
  }
  return bounds;
}

std::vector<Share> way_bounds(const Config& config, const Platform& platform, unsigned total) {
  std::vector<Share> bounds;
  for (const ServiceConfig& service : config.services) {
    bounds.push_back({std::max(service.spec.min_ways, platform.min_way_bits),
                      std::min(service.spec.max_ways.value_or(total), total)});
  }
  return bounds;
}

// Cores of one service, starting behind those of the services before it. 0: it shares all that there are, as found.
void assign_cores(Assignment& assignment, const Platform& platform, const CpuSet& cpus, unsigned first,
                  unsigned count) {
  if (count == 0) return;
  if (platform.core_quantum < 1.0) {
    assignment.cpu_quota = count * platform.core_quantum;
    return;
  }
  const auto begin = cpus.begin() + first;
  assignment.cpus = format_cpulist(CpuSet(begin, begin + count));
}

}  // namespace

std::vector<unsigned> even_shares(unsigned total, const std::vector<Share>& bounds) {
  std::vector<unsigned> shares;
  shares.reserve(bounds.size());
  for (const Share& bound : bounds) shares.push_back(bound.least);
  unsigned given = std::accumulate(shares.begin(), shares.end(), 0U);
  if (given > total) return {};
  while (given < total) {
    std::size_t poorest = bounds.size();
    for (std::size_t index = 0; index < bounds.size(); ++index) {
      if (shares[index] >= bounds[index].most) continue;
      if (poorest == bounds.size() || shares[index] < shares[poorest]) poorest = index;
    }
    if (poorest == bounds.size()) break;  // everybody is at its limit
    ++shares[poorest];
    ++given;
  }
  return shares;
}

Decision even_decision(const Config& config, const Platform& platform) {
  Decision decision;
  decision.node = config.node;
  decision.policy = "even";
  decision.own = true;
  decision.reasons.push_back({"the server does not answer, so every service gets an equal share", std::nullopt});
  const CpuSet cpus = parse_cpulist(platform.cpus) ? *parse_cpulist(platform.cpus) : CpuSet{};
  const auto cores = even_shares(platform.cores, core_bounds(config, platform));
  const unsigned total_ways = platform.ways.value_or(0);
  // Without a cache group for each of them, all share all ways, as found: no limit of a service refuses that.
  const bool apart = !platform.max_groups || config.services.size() < *platform.max_groups;
  const auto ways = apart ? even_shares(total_ways, way_bounds(config, platform, total_ways)) : std::vector<unsigned>{};
  Region everything;
  unsigned first_core = 0;
  unsigned first_way = 0;
  for (std::size_t index = 0; index < config.services.size(); ++index) {
    const std::string& name = config.services[index].spec.name;
    Assignment assignment;
    assignment.service = name;
    Region own{{name}, 0, 0};
    own.cores = cores.empty() ? 0 : cores[index];
    assign_cores(assignment, platform, cpus, first_core, own.cores);
    first_core += own.cores;
    if (!ways.empty()) {
      own.ways = ways[index];
      assignment.way_mask = run_of_ones(own.ways) << first_way;
      first_way += own.ways;
    }
    everything.owners.push_back(name);
    decision.partition.regions.push_back(std::move(own));
    decision.assignments.push_back(std::move(assignment));
  }
  everything.cores = cores.empty() ? platform.cores : 0;
  everything.ways = ways.empty() ? total_ways : 0;
  if (everything.cores > 0 || everything.ways > 0) decision.partition.regions.push_back(std::move(everything));
  return decision;
}

}  // namespace osml
