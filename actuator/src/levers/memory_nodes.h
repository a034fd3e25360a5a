// The NUMA nodes of a service's memory: cpuset.mems of its own cgroup. No decision names them, they follow from CPUs:
// plan/memory_nodes.h. The kernel moves the pages of the service when it is told, on cgroup v2 since Linux 5.15.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "cpu/cgroup1.h"
#include "cpu/cgroup2.h"
#include "levers/numa.h"

namespace osml {

// Values are lists of nodes, never empty.
class Cgroup2Mems : public Cgroup2Cpuset {
 public:
  Cgroup2Mems(const Roots& roots, const Match& match) : Cgroup2Cpuset(roots, match, "cpuset.mems") {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Nodes; }
  Result<std::string> in_force() override { return read(); }
  Status write(const std::string& value) override;
};

// The same of the group and of every group below it. Without cpuset.memory_migrate only new pages would follow, so each
// group gets that as well. Snapshots: as of the CPUs, then a line "memory_migrate" and the same of these switches.
class Cgroup1Mems : public Cgroup1Cpuset {
 public:
  Cgroup1Mems(const Roots& roots, const Match& match) : Cgroup1Cpuset(roots, match, "cpuset.mems") {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Nodes; }
  Status write(const std::string& value) override;
  Result<std::string> snapshot() override;
  Status restore(const std::string& snapshot) override;
};

// Where the memory of a service is, and where it may be.
struct MemoryUse {
  static constexpr auto uncounted = std::numeric_limits<std::uint64_t>::max();

  NodeSet allowed;                           // by the cgroup above
  NodeSet now;                               // of the cgroup; as allowed where it has none of its own
  bool inherits = false;                     // it has none of its own
  std::map<unsigned, std::uint64_t> placed;  // bytes that it works with, by node
  std::uint64_t unplaced = 0;                // bytes, where nobody says on which nodes; or uncounted
};

// Nodes only. `backend`: of its knob.
Result<MemoryUse> read_memory_use(const Roots& roots, const Match& match, std::string_view backend);
// Adds the bytes. The kernel has to sum them up, so that who asks has a reason.
void count_memory(const Roots& roots, const Match& match, std::string_view backend, MemoryUse& use);

}  // namespace osml
