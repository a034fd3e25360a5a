#include "plan/memory_nodes.h"

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace osml {

namespace {

// Of the memory of the nodes. More has to be free before pages move than for them to stay, so that nothing moves to and
// fro.
constexpr std::uint64_t free_part_to_move = 16;
constexpr std::uint64_t free_part_to_stay = 32;

NodeRoom room_of(const NodeRooms& rooms, const NodeSet& nodes) {
  NodeRoom all;
  for (const auto& [node, room] : rooms) {
    if (!std::binary_search(nodes.begin(), nodes.end(), node)) continue;
    all.total += room.total;
    all.free += room.free;
  }
  return all;
}

std::uint64_t placed_outside(const NodeSet& nodes, const MemoryUse& use) {
  std::uint64_t bytes = 0;
  for (const auto& [node, placed] : use.placed) {
    if (!std::binary_search(nodes.begin(), nodes.end(), node)) bytes += placed;
  }
  return bytes;
}

// What has to move when the service is to be on these nodes alone.
std::uint64_t bytes_elsewhere(const MemoryUse& use, const NodeSet& nodes) {
  return is_subset(use.now, nodes) ? 0 : use.unplaced + placed_outside(nodes, use);
}

void take_room(NodeRooms& rooms, const NodeSet& nodes, std::uint64_t bytes) {
  for (auto& [node, room] : rooms) {
    if (!std::binary_search(nodes.begin(), nodes.end(), node)) continue;
    const std::uint64_t taken = std::min(bytes, room.free);
    room.free -= taken;
    bytes -= taken;
  }
}

std::string mib_text(std::uint64_t bytes) {
  if (bytes == MemoryUse::uncounted) return "an unknown amount";
  return std::to_string(bytes / static_cast<std::uint64_t>(bytes_per_mib)) + " MiB";
}

struct ToPlace {
  const KnobSet* set;
  Wanted* values;
  NodeSet near;
  MemoryUse use;
};

// Those that have CPUs of their own and the knob. The others are to have nodes as found.
Result<std::vector<ToPlace>> services_to_place(const Roots& roots, const std::vector<NumaNode>& numa,
                                               const std::vector<KnobSet>& knobs,
                                               std::map<std::string, Wanted>& wanted) {
  std::vector<ToPlace> services;
  for (const KnobSet& set : knobs) {
    const Knob* knob = set.find(Aspect::Nodes);
    const auto named = wanted.find(set.service);
    if (knob == nullptr || named == wanted.end()) continue;
    Wanted& values = named->second;
    values.erase(Aspect::Nodes);
    const auto cpus = values.find(Aspect::Cpus);
    const auto list = cpus == values.end() ? Result<CpuSet>(CpuSet{}) : parse_cpulist(cpus->second);
    if (!list || list->empty()) continue;
    auto use = read_memory_use(roots, set.match, knob->backend());
    if (!use && use.error().kind == ErrorKind::Gone) continue;
    if (!use) return use.error().wrap(set.service);
    services.push_back({&set, &values, memory_near(numa, *list), std::move(*use)});
  }
  return services;
}

}  // namespace

MemoryPlace place_memory(const NodeSet& near, const MemoryUse& use, NodeRooms& rooms) {
  MemoryPlace place;
  const NodeSet wanted = intersect(near, use.allowed);
  if (wanted.empty()) return place;
  for (const NodeSet& nodes : {wanted, unite(wanted, intersect(use.now, use.allowed)), use.allowed}) {
    const bool stays = is_subset(use.now, nodes);
    const std::uint64_t moving = bytes_elsewhere(use, nodes);
    const NodeRoom room = room_of(rooms, nodes);
    const std::uint64_t kept = room.total / (stays ? free_part_to_stay : free_part_to_move);
    place.nodes = nodes;
    if (room.free >= kept && room.free - kept >= moving) {
      take_room(rooms, nodes, moving);
      break;
    }
    if (!place.why.empty() || wanted == use.allowed) continue;
    place.why = "nodes " + format_cpulist(nodes) + " near its CPUs have " + mib_text(room.free) + " free, " +
                mib_text(moving) + " would move there, and " + mib_text(kept) + " must stay free; ";
  }
  if (!place.why.empty()) place.why += "its memory may be on nodes " + format_cpulist(place.nodes);
  return place;
}

// Nobody waits at first, nor where nothing of now is near.
NodeSet NodePatience::settle(const std::string& service, const NodeSet& near, const MemoryUse& use) {
  Since& since = since_.try_emplace(service, Since{near, now_s - wait_s}).first->second;
  if (since.near != near) since = {near, now_s};
  const bool waits = now_s - since.start_s < wait_s && !use.inherits && is_subset(near, use.now);
  return waits ? use.now : near;
}

void NodePatience::forget_others(const std::map<std::string, Wanted>& services) {
  std::erase_if(since_, [&](const auto& one) { return !services.contains(one.first); });
}

Result<WiderMemory> add_memory_nodes(const Roots& roots, const std::vector<NumaNode>& numa,
                                     const std::vector<KnobSet>& knobs, std::map<std::string, Wanted>& wanted,
                                     NodePatience& patience) {
  WiderMemory wider;
  if (numa.empty()) return wider;
  auto services = services_to_place(roots, numa, knobs, wanted);
  if (!services) return services.error();
  if (services->empty()) return wider;
  patience.forget_others(wanted);
  for (ToPlace& one : *services) one.near = patience.settle(one.set->service, one.near, one.use);
  NodeRooms rooms = read_node_rooms(roots);
  const bool stay = std::all_of(services->begin(), services->end(),
                                [](const ToPlace& one) { return is_subset(one.use.now, one.near); });
  for (ToPlace& one : *services) {
    if (stay) break;
    count_memory(roots, one.set->match, one.set->find(Aspect::Nodes)->backend(), one.use);
    take_room(rooms, one.use.now, placed_outside(one.use.now, one.use));  // it may be on its way there
  }
  for (const ToPlace& one : *services) {
    const MemoryPlace place = place_memory(one.near, one.use, rooms);
    if (!place.why.empty()) wider[one.set->service] = place.why;
    const bool as_it_is = one.use.inherits && place.nodes == one.use.allowed;
    if (!place.nodes.empty() && !as_it_is) (*one.values)[Aspect::Nodes] = format_cpulist(place.nodes);
  }
  return wider;
}

}  // namespace osml
