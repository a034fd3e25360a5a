// What the cluster is told of one turn.
#pragma once

#include <optional>

#include "config/config.h"
#include "domain/types.h"
#include "kubernetes/facts.h"
#include "report/turn_report.h"

namespace osml {

// CPUs of the regions of jobs; a region that jobs share with others counts by their share of its owners.
double cpus_of_jobs(const Partition& partition, const std::vector<ServiceConfig>& services, double core_quantum);
// `partition`: the one in force, none where it is not known.
ClusterFacts cluster_facts(const TurnReport& report, const std::optional<Partition>& partition,
                           const Platform& platform, const std::vector<ServiceConfig>& services);

}  // namespace osml
