// What one interval of the agent says about the node, for the cluster.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace osml {

enum class Standing {
  Met,         // every service that is there has a latency, and meets its target
  Missed,      // at least one misses it
  Infeasible,  // the policy says that this node cannot meet the targets
  Unmeasured,  // none misses its target, and the latency of at least one is not known
  NoDecision,  // the server sent no decision
  NotManaged,  // no service with a target is there
};
constexpr std::size_t standings = 6;

struct ClusterFacts {
  Standing standing = Standing::NotManaged;
  std::vector<std::string> services;  // whom the standing is about
  std::vector<std::string> missed;    // who misses its target, also where the policy names nobody
  std::string words;                  // of the policy, where it is Infeasible
  // CPUs that the decision in force leaves to jobs; 0: the node is not managed; none: nothing is known now.
  std::optional<double> jobs_cpus;
  double machine_cpus = 0;
};

// The same moment on both clocks.
struct Moment {
  double node_s = 0;  // node time; every pause and window counts in it
  double unix_s = 0;
};

}  // namespace osml
