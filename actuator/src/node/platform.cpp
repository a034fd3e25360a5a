#include "node/platform.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/number.h"

namespace osml {

namespace {

constexpr double slice = 0.1;
constexpr std::uint64_t least_memory_mib = 16;
constexpr std::uint64_t most_memory_step_mib = 1024;  // PARTIES, section 4.3

fs::path cpu_directory(const Roots& roots) { return roots.sysfs / "devices" / "system" / "cpu"; }

fs::path cpu_directory(const Roots& roots, unsigned cpu) {
  return cpu_directory(roots) / ("cpu" + std::to_string(cpu));
}

// "16384K", "32M" -> MiB; 0 where it cannot be read.
double cache_mib(std::string_view text) {
  text = trim(text);
  if (text.empty()) return 0;
  const char unit = text.back();
  const auto value = parse_unsigned(unit == 'K' || unit == 'M' ? text.substr(0, text.size() - 1) : text);
  if (!value) return 0;
  const auto number = static_cast<double>(*value);
  return unit == 'M' ? number : unit == 'K' ? number / 1024 : number / (1024 * 1024);
}

// Level-3 caches by their id. index numbers are not fixed, so the level decides; a cache without id (some Arm
// machines) is left out, since nothing can be joined to it.
std::map<unsigned, Cache> last_level_caches(const Roots& roots, const CpuSet& cpus) {
  std::map<unsigned, Cache> caches;
  for (const unsigned cpu : cpus) {
    const auto names = list_directory(cpu_directory(roots, cpu) / "cache");
    if (!names) continue;
    for (const std::string& name : *names) {
      const fs::path index = cpu_directory(roots, cpu) / "cache" / name;
      const auto level = read_number(index / "level");
      const auto id = read_number(index / "id");
      if (!level || *level != 3 || !id) continue;
      const auto text = read_text(index / "shared_cpu_list");
      const auto shared = text ? parse_cpulist(trim(*text)) : Result<CpuSet>(CpuSet{});
      const auto size = read_text(index / "size");
      caches[static_cast<unsigned>(*id)] = {shared ? format_cpulist(*shared) : "", size ? cache_mib(*size) : 0};
    }
  }
  return caches;
}

std::vector<std::vector<unsigned>> sibling_sets(const Roots& roots, const CpuSet& cpus) {
  std::set<CpuSet> sets;
  for (const unsigned cpu : cpus) {
    const auto text = read_text(cpu_directory(roots, cpu) / "topology" / "thread_siblings_list");
    const auto siblings = text ? parse_cpulist(*text) : Result<CpuSet>(CpuSet{});
    if (!siblings) continue;
    const CpuSet usable = intersect(*siblings, cpus);
    if (usable.size() > 1) sets.insert(usable);
  }
  return {sets.begin(), sets.end()};
}

MbaRange mba_range(const resctrl::BandwidthInfo& mb) {
  switch (mb.unit) {
    case resctrl::BandwidthUnit::Percent:
      return {mb.min, mb.max, mb.granularity, "percent"};
    case resctrl::BandwidthUnit::Mbps:
      return {mb.min, mb.max, 0, "mbps", true};
    case resctrl::BandwidthUnit::EighthGbps:
      return {mb.min, mb.max, mb.granularity, "eighth_gbps", true};
  }
  return {};
}

std::string cpu_model(const Roots& roots) {
  const auto text = read_text(roots.proc / "cpuinfo");
  if (!text) return "unknown";
  for (const std::string_view line : split_lines(*text)) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string_view::npos)
      return std::string(trim(line.substr(colon + 1)));
  }
  return "unknown";
}

// Whether each usable CPU is behind exactly one of the caches: only then do they divide the machine.
bool divide_cpus(const std::map<unsigned, Cache>& caches, const CpuSet& cpus) {
  CpuSet seen;
  for (const auto& [id, cache] : caches) {
    const auto behind = parse_cpulist(cache.cpus);
    if (!behind || behind->empty() || !intersect(seen, *behind).empty()) return false;
    seen = unite(seen, *behind);
  }
  return is_subset(cpus, seen);
}

void add_cache(Platform& platform, const std::map<unsigned, Cache>& caches, const std::optional<resctrl::Info>& info,
               const CpuSet& cpus) {
  std::vector<unsigned> ids;
  if (info && info->l3) {
    ids = info->l3->domains;
  } else if (info && info->mb) {
    ids = info->mb->domains;
  } else if (divide_cpus(caches, cpus)) {
    for (const auto& [id, cache] : caches) ids.push_back(id);
  }
  for (const unsigned id : ids) {
    const auto found = caches.find(id);
    // One domain and no cache id to join it to: it can only be the whole machine.
    const bool whole = found == caches.end() && ids.size() == 1;
    platform.domains.push_back({id, found != caches.end() ? found->second.cpus : whole ? format_cpulist(cpus) : ""});
  }
  if (!info || !info->l3) return;
  platform.ways = static_cast<unsigned>(std::popcount(info->l3->cbm_mask));
  platform.min_way_bits = info->l3->min_bits;
  platform.sparse_masks = info->l3->sparse;
  const auto cache = caches.find(ids.front());
  if (cache != caches.end() && cache->second.size_mib > 0) {
    platform.way_mib = cache->second.size_mib / static_cast<double>(*platform.ways);
  }
}

// A twentieth, as one of twenty ways is, but no more than `most_step`.
KnobRange parts_of(std::uint64_t all, std::uint64_t most_step) {
  constexpr std::uint64_t parts = 20;
  const std::uint64_t step = std::max<std::uint64_t>(1, std::min(all / parts, most_step));
  return {step, all, step};
}

// Nine tenths of the memory: the rest is the kernel's and the operator's.
std::optional<std::uint64_t> memory_of_services(const Roots& roots) {
  constexpr std::string_view key = "MemTotal:";
  const auto text = read_text(roots.proc / "meminfo");
  if (!text) return std::nullopt;
  for (const std::string_view line : split_lines(*text)) {
    if (!line.starts_with(key)) continue;
    const std::string_view amount = trim(line.substr(key.size()));
    const auto kib = parse_unsigned(amount.substr(0, amount.find(' ')));
    if (!kib || *kib / 1024 < least_memory_mib) return std::nullopt;
    return *kib / 1024 * 9 / 10;
  }
  return std::nullopt;
}

}  // namespace

Result<CpuSet> online_cpus(const Roots& roots) {
  const fs::path file = cpu_directory(roots) / "online";
  const auto text = read_text(file);
  if (!text) return text.error();
  auto online = parse_cpulist(*text);
  return online ? online : online.error().wrap(file.string());
}

Result<CpuSet> usable_cpus(const Config& config) {
  auto online = online_cpus(config.roots);
  if (!online) return online;
  const std::string all = format_cpulist(*online);
  if (config.cpu.cpus) {
    const auto allowed = parse_cpulist(*config.cpu.cpus);
    if (!allowed) return allowed.error().wrap("cpu.cpus");
    online = intersect(*online, *allowed);
  }
  if (online->empty()) {
    return Error{ErrorKind::Input,
                 "cpu.cpus: none of '" + config.cpu.cpus.value_or("") + "' is online; expected CPUs of " + all, 0};
  }
  return online;
}

Topology read_topology(const Config& config, const CpuSet& cpus) {
  return {cpus, sibling_sets(config.roots, cpus), last_level_caches(config.roots, cpus), cpu_model(config.roots)};
}

void add_levers(Platform& platform, const Config& config, const std::vector<KnobSet>& knobs) {
  const auto all_have = [&](Aspect aspect) {
    const bool some = std::any_of(knobs.begin(), knobs.end(), [](const KnobSet& set) { return !set.absent; });
    return some && std::all_of(knobs.begin(), knobs.end(),
                               [&](const KnobSet& set) { return set.absent || set.find(aspect) != nullptr; });
  };
  if (config.levers.memory && all_have(Aspect::Memory)) {
    const auto all = config.levers.memory_mib ? config.levers.memory_mib : memory_of_services(config.roots);
    if (all) platform.memory_mib = parts_of(*all, most_memory_step_mib);
  }
  if (config.levers.disk && config.levers.disk_iops && all_have(Aspect::Disk)) {
    platform.disk_iops = parts_of(*config.levers.disk_iops, *config.levers.disk_iops);
  }
  platform.realtime = config.levers.realtime && all_have(Aspect::Priority);
}

Platform make_platform(const Config& config, const Topology& topology, const std::optional<resctrl::Info>& info,
                       bool quota) {
  const CpuSet& cpus = topology.cpus;
  Platform platform;
  platform.id = config.platform.id.value_or(topology.model);
  platform.cpus = format_cpulist(cpus);
  // Those that are only watched get no CPUs, so they need no slices.
  const auto managed = std::count_if(config.services.begin(), config.services.end(),
                                     [](const ServiceConfig& service) { return !service.watched; });
  const bool slices = quota && std::cmp_less(cpus.size(), managed);
  platform.core_quantum = config.cpu.quantum.value_or(slices ? slice : 1.0);
  platform.cores = static_cast<unsigned>(std::floor(static_cast<double>(cpus.size()) / platform.core_quantum + 1e-9));
  platform.siblings = topology.siblings;
  add_cache(platform, topology.caches, info, cpus);
  platform.regions_in_domains = config.cpu.place && platform.domains.size() > 1;
  if (info && info->mb) platform.mba = mba_range(*info->mb);
  if (info) platform.max_groups = info->max_groups();
  platform.bandwidth_gbps = config.platform.bandwidth_gbps;
  platform.memory_gib = config.platform.memory_gib;
  platform.frequency_ghz = config.platform.frequency_ghz;
  return platform;
}

}  // namespace osml
