// NUMA nodes: which memory is near which CPUs, and how much of it is free.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/cpuset.h"
#include "config/config.h"

namespace osml {

using NodeSet = CpuSet;  // ids of NUMA nodes

struct NumaNode {
  CpuSet cpus;
  // Where the memory of these CPUs is: the node itself, or the nearest that have memory. Nodes with memory and without
  // CPUs (CXL) belong to the nearest that have CPUs, too.
  NodeSet memory;

  bool operator==(const NumaNode&) const = default;
};

// Of <sysfs>/devices/system/node, those with CPUs. Empty where all CPUs have the same memory: there is nothing to
// choose.
std::vector<NumaNode> read_numa(const Roots& roots);
// The nodes that are online, have CPUs, have memory: where this text is another, read_numa() may be as well.
std::string read_numa_lists(const Roots& roots);
// The nodes whose memory is near these CPUs.
NodeSet memory_near(const std::vector<NumaNode>& numa, const CpuSet& cpus);

// Bytes of one node. Free is also what holds pages of files that nobody used lately.
struct NodeRoom {
  std::uint64_t total = 0;
  std::uint64_t free = 0;
};
using NodeRooms = std::map<unsigned, NodeRoom>;

NodeRooms read_node_rooms(const Roots& roots);

}  // namespace osml
