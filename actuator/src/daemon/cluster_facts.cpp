#include "daemon/cluster_facts.h"

#include <algorithm>

namespace osml {

namespace {

bool is_job(const std::vector<ServiceConfig>& services, const std::string& name) {
  return std::any_of(services.begin(), services.end(), [&](const ServiceConfig& service) {
    return service.spec.name == name && service.spec.kind == "be";
  });
}

void describe(const TurnReport& report, ClusterFacts& facts) {
  if (report.met.empty() && report.missed.empty() && report.unmeasured.empty()) {
    facts.standing = Standing::NotManaged;
  } else if (report.failure) {
    facts.standing = Standing::NoDecision;
  } else if (report.infeasible) {
    facts.standing = Standing::Infeasible;
    facts.services = report.infeasible_services;
    facts.words = report.infeasible_words;
  } else if (!report.missed.empty()) {
    facts.standing = Standing::Missed;
    facts.services = report.missed;
  } else {
    facts.standing = report.unmeasured.empty() ? Standing::Met : Standing::Unmeasured;
    facts.services = report.unmeasured.empty() ? report.met : report.unmeasured;
  }
}

}  // namespace

double cpus_of_jobs(const Partition& partition, const std::vector<ServiceConfig>& services, double core_quantum) {
  double cpus = 0;
  for (const Region& region : partition.regions) {
    if (region.owners.empty()) continue;
    const auto jobs = std::count_if(region.owners.begin(), region.owners.end(),
                                    [&](const std::string& owner) { return is_job(services, owner); });
    const double share = static_cast<double>(jobs) / static_cast<double>(region.owners.size());
    cpus += share * core_quantum * region.cores;
  }
  return cpus;
}

ClusterFacts cluster_facts(const TurnReport& report, const std::optional<Partition>& partition,
                           const Platform& platform, const std::vector<ServiceConfig>& services) {
  ClusterFacts facts;
  describe(report, facts);
  facts.missed = report.missed;
  facts.machine_cpus = platform.cores * platform.core_quantum;
  if (report.idle || report.overdue) {
    facts.jobs_cpus = 0;  // nobody looks after the services
  } else if (partition) {
    facts.jobs_cpus = cpus_of_jobs(*partition, services, platform.core_quantum);
  }
  return facts;
}

}  // namespace osml
