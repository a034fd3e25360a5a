// Every key of the wire format, once. The Python structs in osml/domain are the truth; tests compare.
#pragma once

namespace osml::key {

inline constexpr const char* observation_schema = "osml/observation/v1";
inline constexpr const char* decision_schema = "osml/decision/v1";

inline constexpr const char* node = "node";
inline constexpr const char* seq = "seq";
inline constexpr const char* time_s = "time_s";
inline constexpr const char* interval_s = "interval_s";
inline constexpr const char* platform = "platform";
inline constexpr const char* services = "services";
inline constexpr const char* host = "host";
inline constexpr const char* schema = "schema";
inline constexpr const char* policy = "policy";
inline constexpr const char* partition = "partition";
inline constexpr const char* assignments = "assignments";
inline constexpr const char* outcome = "outcome";
inline constexpr const char* missing = "missing";
inline constexpr const char* policy_state = "policy_state";
inline constexpr const char* reasons = "reasons";
inline constexpr const char* infeasible = "infeasible";
inline constexpr const char* knobs = "knobs";

// Platform
inline constexpr const char* id = "id";
inline constexpr const char* cores = "cores";
inline constexpr const char* cpus = "cpus";
inline constexpr const char* core_quantum = "core_quantum";
inline constexpr const char* siblings = "siblings";
inline constexpr const char* ways = "ways";
inline constexpr const char* way_mib = "way_mib";
inline constexpr const char* min_way_bits = "min_way_bits";
inline constexpr const char* sparse_masks = "sparse_masks";
inline constexpr const char* domains = "domains";
inline constexpr const char* mba = "mba";
inline constexpr const char* max_groups = "max_groups";
inline constexpr const char* bandwidth_gbps = "bandwidth_gbps";
inline constexpr const char* memory_gib = "memory_gib";
inline constexpr const char* frequency_ghz = "frequency_ghz";
inline constexpr const char* frequency_mhz = "frequency_mhz";
inline constexpr const char* memory_mib = "memory_mib";
inline constexpr const char* disk_iops = "disk_iops";
inline constexpr const char* realtime = "realtime";
inline constexpr const char* regions_in_domains = "regions_in_domains";
inline constexpr const char* min = "min";
inline constexpr const char* max = "max";
inline constexpr const char* step = "step";
inline constexpr const char* unit = "unit";

// Service, Latency, Counters
inline constexpr const char* name = "name";
inline constexpr const char* kind = "class";
inline constexpr const char* target_ms = "target_ms";
inline constexpr const char* percentile = "percentile";
inline constexpr const char* ideal_ms = "ideal_ms";
inline constexpr const char* ipc_solo = "ipc_solo";
inline constexpr const char* work_rate_solo = "work_rate_solo";
inline constexpr const char* min_cores = "min_cores";
inline constexpr const char* max_cores = "max_cores";
inline constexpr const char* min_ways = "min_ways";
inline constexpr const char* max_ways = "max_ways";
inline constexpr const char* source = "source";
inline constexpr const char* latency = "latency";
inline constexpr const char* counters = "counters";
inline constexpr const char* mean_ms = "mean_ms";
inline constexpr const char* p50_ms = "p50_ms";
inline constexpr const char* p95_ms = "p95_ms";
inline constexpr const char* p99_ms = "p99_ms";
inline constexpr const char* requests_per_s = "requests_per_s";
inline constexpr const char* samples = "samples";
inline constexpr const char* age_s = "age_s";
inline constexpr const char* cpu_usage_cores = "cpu_usage_cores";
inline constexpr const char* throttled_s = "throttled_s";
inline constexpr const char* threads = "threads";
inline constexpr const char* instructions = "instructions";
inline constexpr const char* cycles = "cycles";
inline constexpr const char* ipc = "ipc";
inline constexpr const char* llc_misses = "llc_misses";
inline constexpr const char* llc_occupancy_mib = "llc_occupancy_mib";
inline constexpr const char* bandwidth_total_gbps = "bandwidth_total_gbps";
inline constexpr const char* rss_mib = "rss_mib";
inline constexpr const char* vms_mib = "vms_mib";
inline constexpr const char* work_rate = "work_rate";
inline constexpr const char* run_delay_s = "run_delay_s";
inline constexpr const char* switches = "switches";
inline constexpr const char* cpu_pressure = "cpu_pressure";
inline constexpr const char* memory_pressure = "memory_pressure";
inline constexpr const char* io_pressure = "io_pressure";

// Host
inline constexpr const char* steal = "steal";

// Partition, Assignment, Outcome, Reason
inline constexpr const char* regions = "regions";
inline constexpr const char* owners = "owners";
inline constexpr const char* domain = "domain";
inline constexpr const char* service = "service";
inline constexpr const char* cpu_quota = "cpu_quota";
inline constexpr const char* cpu_weight = "cpu_weight";
inline constexpr const char* way_mask = "way_mask";
inline constexpr const char* realtime_priority = "realtime_priority";
inline constexpr const char* slice_ms = "slice_ms";
inline constexpr const char* status = "status";
inline constexpr const char* message = "message";
inline constexpr const char* duration_ms = "duration_ms";
inline constexpr const char* text = "text";

}  // namespace osml::key
