// Domain types to JSON.
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "domain/json.h"
#include "domain/keys.h"

namespace osml {

namespace {

using nlohmann::json;

std::string hex(std::uint64_t mask) {
  std::array<char, 16> digits{};
  auto* const end = std::to_chars(digits.data(), digits.data() + digits.size(), mask, 16).ptr;
  return {digits.data(), end};
}

json latency_json(const Latency& latency) {
  return {{key::mean_ms, or_null(latency.mean_ms)},
          {key::p50_ms, or_null(latency.p50_ms)},
          {key::p95_ms, or_null(latency.p95_ms)},
          {key::p99_ms, or_null(latency.p99_ms)},
          {key::requests_per_s, or_null(latency.requests_per_s)},
          {key::samples, or_null(latency.samples)},
          {key::age_s, or_null(latency.age_s)}};
}

json counters_json(const Counters& counters) {
  return {{key::cpu_usage_cores, or_null(counters.cpu_usage_cores)},
          {key::throttled_s, or_null(counters.throttled_s)},
          {key::threads, or_null(counters.threads)},
          {key::instructions, or_null(counters.instructions)},
          {key::cycles, or_null(counters.cycles)},
          {key::ipc, or_null(counters.ipc)},
          {key::llc_misses, or_null(counters.llc_misses)},
          {key::llc_occupancy_mib, or_null(counters.llc_occupancy_mib)},
          {key::bandwidth_gbps, or_null(counters.bandwidth_gbps)},
          {key::bandwidth_total_gbps, or_null(counters.bandwidth_total_gbps)},
          {key::frequency_ghz, or_null(counters.frequency_ghz)},
          {key::rss_mib, or_null(counters.rss_mib)},
          {key::vms_mib, or_null(counters.vms_mib)},
          {key::work_rate, or_null(counters.work_rate)},
          {key::run_delay_s, or_null(counters.run_delay_s)},
          {key::switches, or_null(counters.switches)},
          {key::cpu_pressure, or_null(counters.cpu_pressure)},
          {key::memory_pressure, or_null(counters.memory_pressure)},
          {key::io_pressure, or_null(counters.io_pressure)}};
}

json host_json(const Host& host) {
  return {{key::steal, or_null(host.steal)},
          {key::cpu_pressure, or_null(host.cpu_pressure)},
          {key::memory_pressure, or_null(host.memory_pressure)},
          {key::io_pressure, or_null(host.io_pressure)}};
}

json range_json(const KnobRange& range) {
  return {{key::min, range.min}, {key::max, range.max}, {key::step, range.step}};
}

// Only what is set, as the Python struct writes it.
json levers_json(const Levers& levers) {
  json object = json::object();
  if (levers.memory_mib) object[key::memory_mib] = *levers.memory_mib;
  if (levers.disk_iops) object[key::disk_iops] = *levers.disk_iops;
  if (levers.realtime_priority) object[key::realtime_priority] = *levers.realtime_priority;
  if (levers.slice_ms) object[key::slice_ms] = *levers.slice_ms;
  if (levers.frequency_mhz) object[key::frequency_mhz] = *levers.frequency_mhz;
  return object;
}

json region_json(const Region& region) {
  json object = {{key::owners, region.owners}, {key::cores, region.cores}, {key::ways, region.ways}};
  if (region.domain) object[key::domain] = *region.domain;  // as the Python struct: no key where it is not set
  return object;
}

}  // namespace

void to_json(json& out, const Platform& platform) {
  json domains = json::array();
  for (const CacheDomain& domain : platform.domains) {
    domains.push_back({{key::id, domain.id}, {key::cpus, domain.cpus}});
  }
  json mba = nullptr;
  if (platform.mba) {
    mba = {{key::min, platform.mba->min},
           {key::max, platform.mba->max},
           {key::step, platform.mba->step},
           {key::unit, platform.mba->unit}};
  }
  out = {{key::id, platform.id},
         {key::cores, platform.cores},
         {key::cpus, platform.cpus},
         {key::core_quantum, platform.core_quantum},
         {key::siblings, platform.siblings},
         {key::ways, or_null(platform.ways)},
         {key::way_mib, or_null(platform.way_mib)},
         {key::min_way_bits, platform.min_way_bits},
         {key::sparse_masks, platform.sparse_masks},
         {key::domains, std::move(domains)},
         {key::mba, std::move(mba)},
         {key::max_groups, or_null(platform.max_groups)},
         {key::bandwidth_gbps, or_null(platform.bandwidth_gbps)},
         {key::memory_gib, or_null(platform.memory_gib)},
         {key::frequency_ghz, or_null(platform.frequency_ghz)}};
  if (platform.frequency_mhz) out[key::frequency_mhz] = range_json(*platform.frequency_mhz);
  if (platform.memory_mib) out[key::memory_mib] = range_json(*platform.memory_mib);
  if (platform.disk_iops) out[key::disk_iops] = range_json(*platform.disk_iops);
  if (platform.realtime) out[key::realtime] = true;
  if (platform.regions_in_domains) out[key::regions_in_domains] = true;
}

void to_json(json& out, const Service& service) {
  out = {{key::name, service.name},
         {key::kind, service.kind},
         {key::target_ms, or_null(service.target_ms)},
         {key::percentile, service.percentile},
         {key::ideal_ms, or_null(service.ideal_ms)},
         {key::ipc_solo, or_null(service.ipc_solo)},
         {key::work_rate_solo, or_null(service.work_rate_solo)},
         {key::min_cores, service.min_cores},
         {key::max_cores, or_null(service.max_cores)},
         {key::min_ways, service.min_ways},
         {key::max_ways, or_null(service.max_ways)},
         {key::latency, service.latency ? latency_json(*service.latency) : json(nullptr)},
         {key::counters, counters_json(service.counters)}};
  if (service.source) out[key::source] = *service.source;  // servers before it refuse the key
}

void to_json(json& out, const Partition& partition) {
  json regions = json::array();
  for (const Region& region : partition.regions) regions.push_back(region_json(region));
  out = {{key::regions, std::move(regions)}, {key::mba, partition.mba}};
  for (const auto& [service, levers] : partition.levers) out[key::knobs][service] = levers_json(levers);
}

void to_json(json& out, const Assignment& assignment) {
  out = {{key::service, assignment.service},
         {key::cpus, or_null(assignment.cpus)},
         {key::cpu_quota, or_null(assignment.cpu_quota)},
         {key::cpu_weight, or_null(assignment.cpu_weight)},
         {key::way_mask, assignment.way_mask ? json(hex(*assignment.way_mask)) : json(nullptr)},
         {key::mba, or_null(assignment.mba)}};
  if (assignment.levers != Levers{}) out[key::knobs] = levers_json(assignment.levers);
}

void to_json(json& out, const Outcome& outcome) {
  out = {{key::seq, outcome.seq},
         {key::status, text_of(outcome.status)},
         {key::message, outcome.message},
         {key::duration_ms, or_null(outcome.duration_ms)}};
}

void to_json(json& out, const Observation& observation) {
  out = {{key::schema, key::observation_schema},
         {key::node, observation.node},
         {key::seq, observation.seq},
         {key::time_s, observation.time_s},
         {key::interval_s, observation.interval_s},
         {key::platform, observation.platform},
         {key::services, observation.services},
         {key::host, host_json(observation.host)},
         {key::policy, or_null(observation.policy)},
         {key::partition, or_null(observation.partition)},
         {key::assignments, observation.assignments},
         {key::outcome, or_null(observation.outcome)},
         {key::missing, observation.missing},
         {key::policy_state, or_null(observation.policy_state)}};
}

void to_json(json& out, const Reason& reason) {
  out = {{key::text, reason.text}, {key::service, or_null(reason.service)}};
}

void to_json(json& out, const Decision& decision) {
  out = {{key::schema, key::decision_schema},
         {key::node, decision.node},
         {key::seq, decision.seq},
         {key::policy, decision.policy},
         {key::partition, decision.partition},
         {key::assignments, decision.assignments},
         {key::reasons, decision.reasons},
         {key::policy_state, or_null(decision.policy_state)}};
}

std::string dump(const Observation& observation) {
  // Names of processes and error texts may hold any bytes; a bad one must not cost us the observation.
  return json(observation).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace osml
