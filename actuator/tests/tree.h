// Declarative fixtures of the kernel's file systems, with newlines and padding as kernels print them.
#pragma once

#include <string>
#include <utility>

#include "apply/actuator.h"
#include "scratch_tree.h"

namespace osml::testing_support {

class Tree : public ScratchTree {
 public:
  using ScratchTree::ScratchTree;
  [[nodiscard]] Roots roots() const { return {root() / "resctrl", root() / "cgroup", root() / "proc", root() / "sys"}; }

  // One socket, 8 CPUs in 4 cores, 20 MiB of L3 with cache id 0.
  Tree& sysfs() {
    write("sys/devices/system/cpu/online", "0-7\n");
    for (int cpu = 0; cpu < 8; ++cpu) {
      const std::string base = "sys/devices/system/cpu/cpu" + std::to_string(cpu);
      const std::string pair = std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4) + "\n";
      write(base + "/topology/thread_siblings_list", pair);
      write(base + "/cache/index3/level", "3\n").write(base + "/cache/index3/id", "0\n");
      write(base + "/cache/index3/size", "20480K\n").write(base + "/cache/index3/shared_cpu_list", "0-7\n");
    }
    return *this;
  }
  // A service's cgroup v2 with one process of two threads.
  Tree& cgroup2(const std::string& path, int pid) {
    const std::string base = "cgroup/" + path;
    write("cgroup/cgroup.controllers", "cpuset cpu memory\n");
    write(base + "/cgroup.procs", std::to_string(pid) + "\n");
    write(base + "/cpuset.cpus", "\n").write(base + "/cpu.max", "max 100000\n").write(base + "/cpu.weight", "100\n");
    for (const int tid : {pid, pid + 1}) {
      write("proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/comm", "worker\n");
    }
    return *this;
  }
  // Root of a resctrl with 20 ways and MB in percent. A plain directory: what it cannot do is make a group's files.
  Tree& resctrl() {
    write("resctrl/schemata", "    MB:0=100\n    L3:0=fffff\n").write("resctrl/tasks", "");
    write("resctrl/info/L3/cbm_mask", "fffff\n").write("resctrl/info/L3/min_cbm_bits", "1\n");
    write("resctrl/info/L3/num_closids", "16\n").write("resctrl/info/L3/shareable_bits", "c0000\n");
    write("resctrl/info/MB/min_bandwidth", "10\n").write("resctrl/info/MB/bandwidth_gran", "10\n");
    write("resctrl/info/MB/num_closids", "8\n").write("resctrl/info/MB/delay_linear", "1\n");
    write("resctrl/info/last_cmd_status", "ok\n");
    return *this;
  }
  // Two services, "lc" in cgroup a and "be" in cgroup b.
  [[nodiscard]] Config config() const {
    Config config;
    config.node = "n";
    config.roots = roots();
    config.state_dir = root() / "state";
    for (const auto& [name, group] : {std::pair{"lc", "a"}, std::pair{"be", "b"}}) {
      ServiceConfig service;
      service.spec.name = name;
      service.match.cgroup = group;
      config.services.push_back(service);
    }
    return config;
  }
};

}  // namespace osml::testing_support
