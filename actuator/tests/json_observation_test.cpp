// golden/observation.json was written by the Python structs; what we write for the same values must be the same.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "domain/json.h"

namespace osml {
namespace {

using nlohmann::json;

json golden() {
  const auto text = read_text(fs::path(__FILE__).parent_path() / "golden" / "observation.json");
  return json::parse(*text);
}

Service moses() {
  Service service;
  service.name = "moses";
  service.target_ms = 10;
  service.ideal_ms = 2.5;
  service.latency = Latency{3.5, 3.0, 6.5, 9.25, 1200.5, 1200, 0.25};
  Counters& counters = service.counters;
  counters.cpu_usage_cores = 3.5;
  counters.throttled_s = 0.125;
  counters.threads = 8;
  counters.instructions = 4e9;
  counters.cycles = 8e9;
  counters.ipc = 0.5;
  counters.llc_misses = 1e6;
  counters.llc_occupancy_mib = 4.5;
  counters.bandwidth_gbps = 2.5;
  counters.bandwidth_total_gbps = 3.5;
  counters.frequency_ghz = 2.25;
  counters.rss_mib = 512.5;
  counters.vms_mib = 1024.5;
  counters.run_delay_s = 0.25;
  counters.switches = 1500;
  counters.cpu_pressure = 0.375;
  counters.memory_pressure = 0.0625;
  counters.io_pressure = 0.03125;
  return service;
}

Service stream() {
  Service service;
  service.name = "stream";
  service.kind = "be";
  service.ipc_solo = 0.75;
  service.work_rate_solo = 100;
  service.min_cores = 2;
  service.max_cores = 6;
  service.min_ways = 3;
  service.max_ways = 9;
  service.counters.work_rate = 55.5;
  return service;
}

Observation observation() {
  const json document = golden();
  Observation built;
  built.node = "demo";
  built.seq = 42;
  built.time_s = 12.5;
  built.platform = *parse_platform(document.at("platform"), "platform");
  built.services = {moses(), stream()};
  built.host = {0.125, 0.5, 0.25, std::nullopt};
  built.policy = "arq";
  built.partition = *parse_partition(document.at("partition"), "partition");
  built.assignments = *parse_assignments(document.at("assignments"), "assignments");
  built.outcome = Outcome{41, OutcomeStatus::Applied, "2 changes", 1.5};
  built.missing = {{"perf_events", "no hardware PMU"}};
  built.policy_state = "abc";
  return built;
}

TEST(ObservationJson, ASourceIsSentOnlyWhereThereIsOne) {
  Service service = moses();
  EXPECT_FALSE(json(service).contains("source")) << "servers before it refuse the key";
  service.source = "pod shop/web-0";
  EXPECT_EQ(json(service)["source"], "pod shop/web-0");
}

TEST(JsonObservation, IsWhatThePythonStructsWrite) {
  const json ours = json::parse(dump(observation()));
  EXPECT_EQ(ours, golden()) << json::diff(golden(), ours).dump(1);
}

TEST(JsonObservation, MissingIsNullAndNeverLeftOut) {
  Observation empty;
  empty.node = "demo";
  empty.services.resize(1);
  const json ours = json::parse(dump(empty));
  const json full = golden();
  for (const auto& item : full.items()) EXPECT_TRUE(ours.contains(item.key())) << item.key();
  EXPECT_TRUE(ours.at("partition").is_null());
  EXPECT_TRUE(ours.at("services")[0].at("latency").is_null());
  for (const auto& item : ours.at("services")[0].at("counters").items()) {
    EXPECT_TRUE(item.value().is_null()) << item.key();
  }
}

TEST(JsonObservation, BytesThatAreNoTextDoNotCostTheObservation) {
  Observation odd;
  odd.missing = {{"latency.moses", "read \xff\xfe"}};
  EXPECT_TRUE(json::accept(dump(odd)));
}

}  // namespace
}  // namespace osml
