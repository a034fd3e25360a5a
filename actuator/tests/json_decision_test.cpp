// A decision comes from the network: what is accepted, and what each refusal says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "domain/json.h"

namespace osml {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json golden() {
  const auto text = read_text(fs::path(__FILE__).parent_path() / "golden" / "decision.json");
  return json::parse(*text);
}

std::string message_of(const json& document) {
  const auto decision = parse_decision(document.dump());
  return decision ? "(accepted)" : decision.error().message;
}

std::string changed(const std::string& pointer, const json& value) {
  json document = golden();
  document[json::json_pointer(pointer)] = value;
  return message_of(document);
}

TEST(JsonDecision, ReadsTheGoldenOne) {
  const auto decision = parse_decision(golden().dump());
  ASSERT_TRUE(decision) << decision.error().message;
  EXPECT_EQ(decision->node, "demo");
  EXPECT_EQ(decision->seq, 42U);
  EXPECT_EQ(decision->policy, "arq");
  ASSERT_EQ(decision->partition.regions.size(), 2U);
  EXPECT_EQ(decision->partition.regions[1].owners, (std::vector<std::string>{"moses", "stream"}));
  EXPECT_EQ(decision->partition.regions[1].domain, 0U);
  EXPECT_EQ(decision->partition.mba.at("stream"), 20U);
  ASSERT_EQ(decision->assignments.size(), 2U);
  EXPECT_EQ(decision->assignments[0].cpus, "0-3");
  EXPECT_EQ(decision->assignments[0].way_mask, 0xffU);
  EXPECT_FALSE(decision->assignments[0].cpu_quota);
  EXPECT_EQ(decision->assignments[1].cpu_weight, 50U);
  const Levers levers{4096, 2000, 10, 100, 1800};
  EXPECT_EQ(decision->assignments[0].levers, levers);
  EXPECT_EQ(decision->assignments[1].levers, Levers{});
  EXPECT_EQ(decision->partition.levers, (std::map<std::string, Levers>{{"moses", levers}}));
  EXPECT_EQ(decision->reasons.at(0).service, "moses");
  EXPECT_EQ(decision->infeasible, "moses needs 2 more cores");
  EXPECT_EQ(decision->infeasible_services, std::vector<std::string>{"moses"});
  EXPECT_EQ(decision->policy_state, "abc");
}

TEST(JsonDecision, InfeasibleNeedsNoServicesAndTakesNoOddOnes) {
  EXPECT_EQ(changed("/infeasible/services", nullptr), "(accepted)");
  EXPECT_THAT(changed("/infeasible/services", {"moses", 3}), HasSubstr("infeasible.services"));
}

TEST(JsonDecision, UnknownKeysAtTheTopAreIgnored) { EXPECT_EQ(changed("/novelty", 1), "(accepted)"); }

TEST(JsonDecision, ARegionNeedsNoDomainAndTakesNoOddOne) {
  EXPECT_EQ(changed("/partition/regions/0/domain", nullptr), "(accepted)");
  EXPECT_THAT(changed("/partition/regions/0/domain", -1), HasSubstr("partition.regions[0].domain"));
  EXPECT_THAT(changed("/partition/regions/0/domain", "0"), HasSubstr("partition.regions[0].domain"));
  EXPECT_THAT(changed("/partition/regions/0/domain", 4294967296), HasSubstr("partition.regions[0].domain"));
}

TEST(JsonDecision, UnknownKeyInAnAssignmentIsRefused) {
  EXPECT_THAT(changed("/assignments/1/way_maks", "f"), HasSubstr("assignments[1].way_maks: unknown key"));
}

TEST(JsonDecision, KnobsThatTheAgentCannotSetAreRefused) {
  EXPECT_EQ(changed("/assignments/1/knobs", nullptr), "(accepted)");
  EXPECT_EQ(changed("/partition/knobs", json::object()), "(accepted)");
  EXPECT_THAT(changed("/assignments/1/knobs", {{"network_mbps", 2000}}),
              HasSubstr("assignments[1].knobs.network_mbps: 2000, expected no such knob: this agent cannot set it"));
  EXPECT_THAT(changed("/partition/knobs", {{"moses", {{"network_mbps", 1024}}}}),
              HasSubstr("partition.knobs.moses.network_mbps: 1024, expected no such knob"));
  EXPECT_THAT(changed("/partition/knobs", {{"moses", 1}}), HasSubstr("partition.knobs.moses: 1, expected an object"));
  EXPECT_EQ(changed("/assignments/1/knobs", {{"network_mbps", nullptr}}), "(accepted)");
  EXPECT_THAT(changed("/assignments/1/knobs", {{"memory_mib", 0}}), HasSubstr("assignments[1].knobs.memory_mib: 0"));
  EXPECT_THAT(changed("/assignments/1/knobs", {{"disk_iops", 1.5}}), HasSubstr("assignments[1].knobs.disk_iops: 1.5"));
  EXPECT_THAT(changed("/assignments/1/knobs", {{"realtime_priority", 100}}), HasSubstr("realtime_priority: 100"));
  EXPECT_THAT(changed("/assignments/1/knobs", {{"slice_ms", -1}}), HasSubstr("slice_ms: -1"));
  for (const json& mhz : {json(0), json(1.8), json("1800"), json(1000001)}) {
    EXPECT_THAT(changed("/assignments/1/knobs", {{"frequency_mhz", mhz}}),
                HasSubstr("assignments[1].knobs.frequency_mhz: " + mhz.dump()));
  }
}

TEST(JsonDecision, TypesAreNotCoerced) {
  EXPECT_THAT(changed("/seq", "42"), HasSubstr("seq: \"42\", expected an integer"));
  EXPECT_THAT(changed("/seq", 42.0), HasSubstr("seq: 42.0, expected an integer"));
  EXPECT_THAT(changed("/seq", -1), HasSubstr("seq: -1, expected an integer"));
  EXPECT_THAT(changed("/seq", true), HasSubstr("seq: true, expected an integer"));
  EXPECT_THAT(changed("/assignments", "none"), HasSubstr("assignments: \"none\", expected a list"));
  EXPECT_THAT(changed("/assignments/0", 3), HasSubstr("assignments[0]: 3, expected an object"));
  EXPECT_THAT(changed("/assignments/0/cpu_weight", 1.5), HasSubstr("assignments[0].cpu_weight: 1.5, expected"));
}

TEST(JsonDecision, RangesAndForms) {
  EXPECT_THAT(changed("/assignments/0/way_mask", "0x3"),
              HasSubstr("assignments[0].way_mask: \"0x3\", expected 1 to 16"));
  EXPECT_THAT(changed("/assignments/0/way_mask", "0"),
              HasSubstr("assignments[0].way_mask: \"0\", expected at least one way"));
  EXPECT_THAT(changed("/assignments/0/way_mask", 255), HasSubstr("assignments[0].way_mask: 255, expected"));
  EXPECT_THAT(changed("/assignments/0/cpus", "4-2"), HasSubstr("assignments[0].cpus: \"4-2\", expected a CPU list"));
  EXPECT_THAT(changed("/assignments/0/cpus", ""), HasSubstr("assignments[0].cpus: \"\", expected a CPU list"));
  EXPECT_THAT(changed("/assignments/0/cpu_quota", 0), HasSubstr("cpu_quota: 0, expected a number above 0"));
  EXPECT_THAT(changed("/assignments/0/cpu_weight", 10001), HasSubstr("cpu_weight: 10001, expected"));
  EXPECT_THAT(changed("/assignments/0/mba", 0), HasSubstr("assignments[0].mba: 0, expected"));
  EXPECT_THAT(changed("/assignments/0/service", "a/../b"),
              HasSubstr("assignments[0].service: \"a/../b\", expected a name"));
  EXPECT_THAT(changed("/partition/regions/0/owners", json::array()),
              HasSubstr("regions[0].owners: a list of 0 entries, expected at least"));
  EXPECT_THAT(changed("/partition/regions/0/cores", 1e9), HasSubstr("regions[0].cores: "));
}

TEST(JsonDecision, OneAssignmentPerService) {
  EXPECT_THAT(changed("/assignments/1/service", "moses"), HasSubstr("service 'moses' has two assignments"));
}

TEST(JsonDecision, WhatIsMissingIsNamed) {
  for (const char* key : {"node", "seq", "policy", "partition", "assignments"}) {
    json document = golden();
    document.erase(key);
    EXPECT_THAT(message_of(document), HasSubstr(std::string(key) + ": missing"));
  }
}

TEST(JsonDecision, AnotherSchemaIsRefused) {
  EXPECT_THAT(changed("/schema", "osml/decision/v2"),
              HasSubstr("schema: \"osml/decision/v2\", expected osml/decision/v1"));
}

TEST(JsonDecision, GarbageIsNoCrash) {
  for (const char* text :
       {"", "<html>", "[]", "7", "null", "{\"seq\":", "{\"seq\": NaN}", "\xff\xfe", "{\"node\": \"\\ud800\"}"}) {
    const auto decision = parse_decision(text);
    ASSERT_FALSE(decision) << text;
    EXPECT_EQ(decision.error().kind, ErrorKind::Input);
  }
  EXPECT_FALSE(parse_decision(std::string(200000, '[')));
  EXPECT_FALSE(parse_decision(std::string(200000, '[') + std::string(200000, ']')));
}

TEST(JsonDecision, LongValuesAreCutInTheMessage) { EXPECT_LT(changed("/seq", std::string(100000, 'x')).size(), 200U); }

}  // namespace
}  // namespace osml
