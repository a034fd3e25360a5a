// Where the memory of services goes. No decision says so: it follows the CPUs, to the NUMA nodes that are near them.
// A service whose nodes are full would be killed while other nodes have room, so it gets more nodes before that.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "levers/memory_nodes.h"
#include "levers/numa.h"
#include "node/knobs.h"
#include "plan/wanted.h"

namespace osml {

struct MemoryPlace {
  NodeSet nodes;    // empty: as found
  std::string why;  // these are more nodes than those near its CPUs; else empty
};

// `near`: to the CPUs of the service. Takes what moves there out of `rooms`, for whoever is placed next. Pure.
MemoryPlace place_memory(const NodeSet& near, const MemoryUse& use, NodeRooms& rooms);

// CPUs that go to and fro across a border of nodes would have pages moved each time. So nodes that a service has are
// given up only when its CPUs have been away from them for a while; the times are node time.
class NodePatience {
 public:
  // The nodes to go to: `near`, or those of now.
  NodeSet settle(const std::string& service, const NodeSet& near, const MemoryUse& use);
  void forget_others(const std::map<std::string, Wanted>& services);

  double now_s = 0;
  double wait_s = 0;

 private:
  struct Since {
    NodeSet near;
    double start_s = 0;
  };
  std::map<std::string, Since> since_;
};

// Gives each service that has CPUs of its own and the knob the nodes of its memory. Says for whom they are more than
// those near its CPUs, and why.
using WiderMemory = std::map<std::string, std::string>;
Result<WiderMemory> add_memory_nodes(const Roots& roots, const std::vector<NumaNode>& numa,
                                     const std::vector<KnobSet>& knobs, std::map<std::string, Wanted>& wanted,
                                     NodePatience& patience);

}  // namespace osml
