// What this machine's resctrl offers: the info directory as typed values, and the domains of the root group. Only
// files that exist are believed; never the CPU model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "config/config.h"

namespace osml::resctrl {

struct CacheInfo {
  std::vector<std::string> resources;  // {"L3"}, or {"L3CODE", "L3DATA"} under CDP: both get the same mask
  std::uint64_t cbm_mask = 0;          // every way
  unsigned min_bits = 1;               // AMD says 0; a service never gets less than 1
  bool sparse = false;                 // masks with holes are legal
  std::uint64_t shareable_bits = 0;    // ways that other hardware fills too
  unsigned num_closids = 0;            // groups, the root included
  std::vector<unsigned> domains;       // ids as in the root's schemata
  std::uint64_t found = 0;             // what the root group has in every domain
};

enum class BandwidthUnit { Percent, Mbps, EighthGbps };

struct BandwidthInfo {
  unsigned min = 10;
  unsigned max = 100;
  unsigned granularity = 10;  // the kernel rounds percentages up to it, and on some kernels MB/s; 0 or 1 = any
  BandwidthUnit unit = BandwidthUnit::Percent;
  unsigned num_closids = 0;
  std::vector<unsigned> domains;
  unsigned found = 100;  // what the root group has
};

struct MonitorInfo {
  unsigned num_rmids = 0;
  std::vector<std::string> events;  // llc_occupancy, mbm_total_bytes, mbm_local_bytes, ...
};

struct Info {
  std::optional<CacheInfo> l3;
  std::optional<BandwidthInfo> mb;
  std::optional<MonitorInfo> monitor;

  [[nodiscard]] bool allocates() const { return l3 || mb; }
  // Least num_closids of what is there: so many groups exist at most, the root included. Absent without allocation.
  [[nodiscard]] std::optional<unsigned> max_groups() const;
};

// The value that the kernel stores for a wanted bandwidth (rounded up to the granularity).
unsigned rounded(const BandwidthInfo& info, unsigned value);

// Reads the tree below roots.resctrl. Unsupported where the kernel or CPU has none or nothing is mounted; the
// message says which, and how to mount. Another error: nobody can tell what there is.
Result<Info> read_info(const Roots& roots);

// Resources in the root group's schemata.
std::vector<std::string> root_resources(const fs::path& root);
// info/last_cmd_status in brackets for an error message, empty where it says ok. A hint only: it may be another
// writer's.
std::string last_status(const fs::path& root);

}  // namespace osml::resctrl
