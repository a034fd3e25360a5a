// The wire types of osml/domain (Python) on the agent's side: same names, same units, same meaning. The JSON schema
// of the Python side is the truth; tests/wire_test.cpp and tests/e2e compare both. No I/O here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "domain/outcome.h"

namespace osml {

// Of one node.
inline constexpr std::size_t max_services = 64;

struct CacheDomain {
  unsigned id = 0;
  std::string cpus;
};

// The largest throttle, in MB/s, the smallest unit that there is.
inline constexpr unsigned most_mba = 16'000'000;

struct MbaRange {
  unsigned min = 10;
  unsigned max = 100;
  unsigned step = 10;            // 0 = any value
  std::string unit = "percent";  // percent | mbps | eighth_gbps
  bool per_domain = false;       // bandwidth of each cache domain, not of the node; nobody is told
};

// What a lever of one service can be set to; of memory and disk `max` is what all services have together.
struct KnobRange {
  std::uint64_t min = 1;
  std::uint64_t max = 1;
  std::uint64_t step = 1;

  bool operator==(const KnobRange&) const = default;
};

struct Platform {
  std::string id;
  unsigned cores = 0;  // core units of core_quantum logical CPUs each
  std::string cpus;    // kernel CPU list
  double core_quantum = 1.0;
  std::vector<std::vector<unsigned>> siblings;
  std::optional<unsigned> ways;
  std::optional<double> way_mib;
  unsigned min_way_bits = 1;
  bool sparse_masks = false;
  std::vector<CacheDomain> domains;
  std::optional<MbaRange> mba;
  std::optional<unsigned> max_groups;
  std::optional<double> bandwidth_gbps;
  std::optional<double> memory_gib;
  std::optional<double> frequency_ghz;
  std::optional<KnobRange> frequency_mhz, memory_mib, disk_iops;  // absent = this node cannot set it
  bool realtime = false;
  bool regions_in_domains = false;  // the operator lets regions name one of `domains`
};

struct Latency {
  std::optional<double> mean_ms, p50_ms, p95_ms, p99_ms, requests_per_s;
  std::optional<std::uint64_t> samples;
  std::optional<double> age_s;

  bool operator==(const Latency&) const = default;
};

struct Counters {
  std::optional<double> cpu_usage_cores, throttled_s;
  std::optional<std::uint64_t> threads;
  std::optional<double> instructions, cycles, ipc, llc_misses, llc_occupancy_mib, bandwidth_gbps, bandwidth_total_gbps;
  std::optional<double> frequency_ghz, rss_mib, vms_mib, work_rate;
  std::optional<double> run_delay_s, switches, cpu_pressure, memory_pressure, io_pressure;

  bool operator==(const Counters&) const = default;
};

// The whole machine in one interval; shares are 0 to 1.
struct Host {
  std::optional<double> steal, cpu_pressure, memory_pressure, io_pressure;
};

// What the operator says of a service (configuration) and what was measured of it (one interval).
struct Service {
  std::string name;
  std::string kind = "lc";  // JSON key "class": lc | be
  std::optional<double> target_ms;
  std::string percentile = "p99";  // p50 | p95 | p99 | mean
  std::optional<double> ideal_ms, ipc_solo, work_rate_solo;
  unsigned min_cores = 1;
  std::optional<unsigned> max_cores;
  unsigned min_ways = 1;
  std::optional<unsigned> max_ways;
  std::optional<std::string> source;  // who asked for it, where the configuration did not: "pod shop/web-0"
  std::optional<Latency> latency;
  Counters counters;

  bool operator==(const Service&) const = default;
};

// The latency at the percentile of the target; none where it was not measured.
inline std::optional<double> latency_at_target(const Service& service) {
  if (!service.latency) return std::nullopt;
  const Latency& latency = *service.latency;
  if (service.percentile == "p50") return latency.p50_ms;
  if (service.percentile == "p95") return latency.p95_ms;
  return service.percentile == "mean" ? latency.mean_ms : latency.p99_ms;
}

struct Region {
  std::vector<std::string> owners;
  unsigned cores = 0;
  unsigned ways = 0;
  std::optional<unsigned> domain = {};  // the cache domain that they are in; absent = of the node as a whole
};

// What one service may use beside CPUs, ways and memory bandwidth. Absent = no limit, the default of the kernel. The
// wire knows network_mbps too, which this agent never sets.
struct Levers {
  std::optional<std::uint64_t> memory_mib;
  std::optional<std::uint64_t> disk_iops;  // reads a second of each disk
  std::optional<unsigned> realtime_priority;
  std::optional<double> slice_ms;                   // of SCHED_RR; only the kernel's own can be had
  std::optional<std::uint64_t> frequency_mhz = {};  // of the CPUs of the service

  bool operator==(const Levers&) const = default;
};

struct Partition {
  std::vector<Region> regions;
  std::map<std::string, unsigned> mba;
  std::map<std::string, Levers> levers = {};  // JSON key "knobs"
};

// Absent = this mechanism is not used for the service.
struct Assignment {
  std::string service;
  std::optional<std::string> cpus;        // kernel CPU list
  std::optional<double> cpu_quota;        // logical CPUs
  std::optional<unsigned> cpu_weight;     // cgroup v2 scale, 1..10000
  std::optional<std::uint64_t> way_mask;  // JSON: hexadecimal string without 0x
  std::optional<unsigned> mba;            // in the platform's unit
  Levers levers = {};                     // JSON key "knobs"

  bool operator==(const Assignment&) const = default;
};

struct Observation {
  std::string node;
  std::uint64_t seq = 0;
  double time_s = 0;
  double interval_s = 1;
  Platform platform;
  std::vector<Service> services;
  Host host;
  std::optional<std::string> policy;
  std::optional<Partition> partition;
  std::vector<Assignment> assignments;
  std::optional<Outcome> outcome;
  std::map<std::string, std::string> missing;
  std::optional<std::string> policy_state;
};

struct Reason {
  std::string text;
  std::optional<std::string> service;
};

struct Decision {
  std::string node;
  std::uint64_t seq = 0;
  std::string policy;
  Partition partition;
  std::vector<Assignment> assignments;
  std::vector<Reason> reasons;
  std::optional<std::string> infeasible;
  std::vector<std::string> infeasible_services = {};  // JSON: infeasible.services
  std::optional<std::string> policy_state;
  // Of the agent itself (the fallback `even`), never of the wire: limits of steps are for policies.
  bool own = false;
};

}  // namespace osml
