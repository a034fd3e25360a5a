#include "levers/numa.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/kept_file.h"

namespace osml {

namespace {

fs::path numa_directory(const Roots& roots) { return roots.sysfs / "devices" / "system" / "node"; }

fs::path numa_directory(const Roots& roots, unsigned node) {
  return numa_directory(roots) / ("node" + std::to_string(node));
}

CpuSet read_list(const fs::path& file) {
  const auto text = read_text(file);
  const auto list = text ? parse_cpulist(trim(*text)) : Result<CpuSet>(CpuSet{});
  return list ? *list : CpuSet{};
}

// Those of `some` that are nearest to the node; all of them where the kernel does not say.
NodeSet nearest_nodes(const Roots& roots, unsigned node, const NodeSet& online, const NodeSet& some) {
  const auto text = read_text(numa_directory(roots, node) / "distance");  // a number for each node that is online
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  NodeSet nearest;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const unsigned other : online) {
    rest = trim(rest);
    const auto distance = leading_number(rest);
    if (!distance) return some;
    rest.remove_prefix(std::min(rest.find(' '), rest.size()));
    if (!std::binary_search(some.begin(), some.end(), other) || *distance > least) continue;
    if (*distance < least) nearest.clear();
    least = *distance;
    nearest.push_back(other);
  }
  return nearest;
}

// Lines are "Node 0 MemFree:          123456 kB".
std::uint64_t node_bytes(std::string_view meminfo, unsigned node, const char* key) {
  constexpr std::uint64_t bytes_per_kib = 1024;
  return keyed_number(meminfo, "Node " + std::to_string(node) + key).value_or(0) * bytes_per_kib;
}

}  // namespace

std::vector<NumaNode> read_numa(const Roots& roots) {
  const NodeSet online = read_list(numa_directory(roots) / "online");
  const NodeSet with_memory = intersect(read_list(numa_directory(roots) / "has_memory"), online);
  std::map<unsigned, NumaNode> of_cpus;
  NodeSet with_cpus;
  for (const unsigned id : online) {
    CpuSet cpus = read_list(numa_directory(roots, id) / "cpulist");
    if (cpus.empty()) continue;
    const bool own = std::binary_search(with_memory.begin(), with_memory.end(), id);
    of_cpus[id] = {std::move(cpus), own ? NodeSet{id} : nearest_nodes(roots, id, online, with_memory)};
    with_cpus.push_back(id);
  }
  for (const unsigned id : without(with_memory, with_cpus)) {
    for (const unsigned near : nearest_nodes(roots, id, online, with_cpus)) {
      of_cpus[near].memory = unite(of_cpus[near].memory, {id});
    }
  }
  std::vector<NumaNode> numa;
  for (auto& [id, node] : of_cpus) numa.push_back(std::move(node));
  const bool same =
      std::all_of(numa.begin(), numa.end(), [&](const NumaNode& one) { return one.memory == numa.front().memory; });
  return same ? std::vector<NumaNode>() : numa;
}

std::string read_numa_lists(const Roots& roots) {
  std::string lists;
  for (const char* file : {"online", "has_cpu", "has_memory"}) {
    const auto text = read_text(numa_directory(roots) / file);
    lists += (text ? *text : "") + "\n";
  }
  return lists;
}

NodeSet memory_near(const std::vector<NumaNode>& numa, const CpuSet& cpus) {
  NodeSet near;
  for (const NumaNode& node : numa) {
    if (!intersect(node.cpus, cpus).empty()) near = unite(near, node.memory);
  }
  return near;
}

NodeRooms read_node_rooms(const Roots& roots) {
  NodeRooms rooms;
  for (const unsigned id : read_list(numa_directory(roots) / "has_memory")) {
    const auto text = read_text(numa_directory(roots, id) / "meminfo");
    if (!text) continue;
    rooms[id] = {node_bytes(*text, id, " MemTotal:"),
                 node_bytes(*text, id, " MemFree:") + node_bytes(*text, id, " Inactive(file):")};
  }
  return rooms;
}

}  // namespace osml
