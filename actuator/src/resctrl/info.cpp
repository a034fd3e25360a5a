#include "resctrl/info.h"

#include <algorithm>
#include <limits>

#include "base/mask.h"
#include "base/number.h"
#include "resctrl/schemata.h"

namespace osml::resctrl {

namespace {

constexpr unsigned amd_unlimited = 2048;  // 1/8 GB/s units; the value that every AMD kernel accepts as "no limit"

// Reads the info directory. A file that does not exist says what the machine lacks; one that cannot be read says
// nothing, and then nothing that was read may be believed.
class InfoReader {
 public:
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  bool exists(const fs::path& path) {
    const auto there = present(path);
    if (!there) error_ = there.error();
    return there && *there;
  }
  std::optional<std::string> text(const fs::path& path) {
    auto text = read_text(path);
    if (text) return std::move(*text);
    if (text.error().kind != ErrorKind::Gone) error_ = text.error();
    return std::nullopt;
  }
  std::optional<std::uint64_t> number(const fs::path& path, int base = 10) {
    const auto read = text(path);
    return read ? parse_unsigned(trim(*read), base) : std::nullopt;
  }
  unsigned small_number(const fs::path& path, unsigned otherwise) {
    const auto value = number(path);
    return value && *value <= std::numeric_limits<unsigned>::max() ? static_cast<unsigned>(*value) : otherwise;
  }

  std::optional<CacheInfo> cache(const fs::path& info, const Schemata& root);
  std::optional<BandwidthInfo> bandwidth(const fs::path& info, const Schemata& root);
  std::optional<MonitorInfo> monitor(const fs::path& info);

 private:
  std::optional<Error> error_;
};

std::vector<unsigned> domains_of(const Schemata& root, const std::string& resource) {
  std::vector<unsigned> ids;
  if (const SchemataLine* line = find_line(root, resource)) {
    for (const auto& [id, value] : line->values) ids.push_back(id);
  }
  return ids;
}

std::optional<CacheInfo> InfoReader::cache(const fs::path& info, const Schemata& root) {
  CacheInfo cache;
  if (exists(info / "L3CODE")) {
    cache.resources = {"L3CODE", "L3DATA"};
  } else if (exists(info / "L3")) {
    cache.resources = {"L3"};
  } else {
    return std::nullopt;
  }
  const fs::path directory = info / cache.resources.front();
  const auto mask = number(directory / "cbm_mask", 16);
  cache.domains = domains_of(root, cache.resources.front());
  if (!mask || *mask == 0 || cache.domains.empty()) return std::nullopt;
  cache.cbm_mask = *mask;
  cache.min_bits = std::max(1U, small_number(directory / "min_cbm_bits", 1));
  cache.sparse = small_number(directory / "sparse_masks", 0) != 0;
  cache.shareable_bits = number(directory / "shareable_bits", 16).value_or(0);
  cache.num_closids = small_number(directory / "num_closids", 0);
  cache.found = cache.cbm_mask;
  for (const auto& [id, value] : find_line(root, cache.resources.front())->values) cache.found &= value;
  if (cache.found == 0 || !(cache.sparse || is_contiguous(cache.found))) cache.found = cache.cbm_mask;
  return cache;
}

// The kernel does not name the unit. mba_MBps shows the largest 32-bit number where nothing is limited, and another
// large one where somebody limited all; AMD's absolute values start at 0, which no percentage does.
std::optional<BandwidthInfo> InfoReader::bandwidth(const fs::path& info, const Schemata& root) {
  const fs::path directory = info / "MB";
  const SchemataLine* line = find_line(root, "MB");
  if (!exists(directory) || line == nullptr) return std::nullopt;
  BandwidthInfo mb;
  mb.min = small_number(directory / "min_bandwidth", 10);
  mb.granularity = small_number(directory / "bandwidth_gran", 10);
  mb.num_closids = small_number(directory / "num_closids", 0);
  mb.domains = domains_of(root, "MB");
  std::uint64_t largest = 0;
  for (const auto& [id, value] : line->values) largest = std::max(largest, value);
  constexpr std::uint64_t most_percent = 100;
  const bool no_percentage = mb.min != 0 && largest > most_percent;
  if (no_percentage || exists(info.parent_path() / "mba_MBps_event")) {
    mb.unit = BandwidthUnit::Mbps;
    mb.min = 1;
    mb.max = most_mba - most_mba % std::max(1U, mb.granularity);
  } else if (mb.min == 0) {
    mb.unit = BandwidthUnit::EighthGbps;
    mb.min = 1;  // 0 would stop the service altogether
    mb.max = std::max(amd_unlimited, static_cast<unsigned>(largest));
  }
  // Without a limit the root group has a number that no decision may name; the largest of ours limits nobody either.
  const bool absolute = mb.unit == BandwidthUnit::Mbps;
  mb.found = static_cast<unsigned>(absolute ? std::min<std::uint64_t>(largest, mb.max) : largest);
  return mb;
}

std::optional<MonitorInfo> InfoReader::monitor(const fs::path& info) {
  const auto features = text(info / "L3_MON" / "mon_features");
  if (!features) return std::nullopt;
  MonitorInfo monitor{small_number(info / "L3_MON" / "num_rmids", 0), {}};
  for (const std::string_view line : split_lines(*features)) {
    if (!trim(line).empty()) monitor.events.emplace_back(trim(line));
  }
  return monitor;
}

bool cpu_has_flags(const fs::path& proc) {
  const auto text = read_text(proc / "cpuinfo");
  return text && (text->find(" rdt_a") != std::string::npos || text->find(" cat_l3") != std::string::npos);
}

Error not_there(const Roots& roots) {
  const std::string root = roots.resctrl.string();
  if (osml::exists(roots.resctrl)) {
    return {ErrorKind::Unsupported, root + " is not mounted; run: mount -t resctrl resctrl " + root, 0};
  }
  if (cpu_has_flags(roots.proc)) {
    return {
        ErrorKind::Unsupported,
        root + " does not exist: the CPU has resource control, but the kernel was built without CONFIG_X86_CPU_RESCTRL",
        0};
  }
  return {ErrorKind::Unsupported,
          root + " does not exist: this CPU or virtual machine has no resource control (RDT, PQoS)", 0};
}

}  // namespace

std::optional<unsigned> Info::max_groups() const {
  if (l3 && mb) return std::min(l3->num_closids, mb->num_closids);
  if (l3) return l3->num_closids;
  if (mb) return mb->num_closids;
  return std::nullopt;
}

unsigned rounded(const BandwidthInfo& info, unsigned value) {
  if (info.granularity <= 1 || info.unit != BandwidthUnit::Percent) return value;
  const unsigned up = (value + info.granularity - 1) / info.granularity * info.granularity;
  return std::min(up, info.max);
}

Result<Info> read_info(const Roots& roots) {
  const fs::path directory = roots.resctrl / "info";
  const auto mounted = present(directory);
  if (!mounted) return mounted.error();
  if (!*mounted) return not_there(roots);
  InfoReader reader;
  Info info;
  info.monitor = reader.monitor(directory);
  const auto text = read_text(roots.resctrl / "schemata");
  if (!text) return text.error();
  const auto root = parse_schemata(*text);
  if (!root) return root.error().wrap(roots.resctrl.string());
  info.l3 = reader.cache(directory, *root);
  info.mb = reader.bandwidth(directory, *root);
  if (reader.error()) return *reader.error();
  return info;
}

std::vector<std::string> root_resources(const fs::path& root) {
  std::vector<std::string> names;
  const auto text = read_text(root / "schemata");
  if (!text) return names;
  if (const auto schemata = parse_schemata(*text)) {
    for (const SchemataLine& line : *schemata) names.push_back(line.resource);
  }
  return names;
}

std::string last_status(const fs::path& root) {
  const auto text = read_text(root / "info" / "last_cmd_status");
  if (!text || trim(*text).empty() || trim(*text) == "ok") return {};
  std::string hint(trim(*text));
  std::replace(hint.begin(), hint.end(), '\n', ';');
  return " (kernel: " + hint + ")";
}

}  // namespace osml::resctrl
