// Trees of machines with several NUMA nodes.
#pragma once

#include <cstdint>
#include <string>

#include "tree.h"

namespace osml::testing_support {

inline constexpr std::uint64_t mib = 1024 * 1024;

inline std::string node_path(unsigned node) { return "sys/devices/system/node/node" + std::to_string(node); }

inline void set_room(const Tree& tree, unsigned node, std::uint64_t total_mib, std::uint64_t free_mib) {
  const std::string start = "Node " + std::to_string(node) + " ";
  const auto line = [&](const char* key, std::uint64_t amount_mib) {
    return start + key + ":       " + std::to_string(amount_mib * 1024) + " kB\n";
  };
  tree.write(node_path(node) + "/meminfo", line("MemTotal", total_mib) + line("MemFree", free_mib / 2) +
                                               line("MemUsed", 7) + line("Active(file)", 9) +
                                               line("Inactive(file)", free_mib - free_mib / 2));
}

inline void add_node(const Tree& tree, unsigned node, const std::string& cpus, const std::string& distance) {
  tree.write(node_path(node) + "/cpulist", cpus + "\n").write(node_path(node) + "/distance", distance + "\n");
  set_room(tree, node, 1000, 900);
}

inline void set_nodes(const Tree& tree, const std::string& online, const std::string& with_memory) {
  tree.write("sys/devices/system/node/online", online + "\n");
  tree.write("sys/devices/system/node/has_memory", with_memory + "\n");
}

// Two sockets: CPUs 0-3 on node 0, 4-7 on node 1, 1000 MiB each with 900 free.
inline void add_sockets(const Tree& tree) {
  set_nodes(tree, "0-1", "0-1");
  add_node(tree, 0, "0-3", "10 21");
  add_node(tree, 1, "4-7", "21 10");
}

// A cgroup v2 that has no nodes of its own, with so many MiB on each node.
inline void add_memory(const Tree& tree, const std::string& group, std::uint64_t on_0, std::uint64_t on_1) {
  const auto both = [](std::uint64_t a, std::uint64_t b) {
    return " N0=" + std::to_string(a * mib) + " N1=" + std::to_string(b * mib) + "\n";
  };
  const std::string base = "cgroup/" + group;
  tree.write("cgroup/cpuset.mems.effective", "0-1\n").write(base + "/cpuset.mems", "\n");
  tree.write(base + "/memory.current", std::to_string((on_0 + on_1 + 30) * mib) + "\n");
  tree.write(base + "/memory.numa_stat", "anon" + both(on_0 / 2, on_1 / 2) + "file" +
                                             both(on_0 - on_0 / 2 + 20, on_1 - on_1 / 2 + 10) + "kernel_stack" +
                                             both(1, 1) + "file_mapped" + both(9, 9) + "inactive_anon" + both(5, 5) +
                                             "inactive_file" + both(20, 10));
}

}  // namespace osml::testing_support
