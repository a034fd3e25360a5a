// The JSON for the API server, byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kubernetes/bodies.h"

namespace osml {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr double noon = 1764072000;  // 2025-11-25T12:00:00Z

Verdict verdict(Standing standing, std::set<std::string> services = {"api", "search"}, std::string words = "") {
  return {standing, std::move(services), std::move(words)};
}

TEST(KubernetesBodies, StatusOfANodeThatMeetsItsTargets) {
  const StatusPatch patch{condition_of(verdict(Standing::Met)), noon + 60.9, noon, JobsResource{12000}};
  EXPECT_EQ(status_body(patch),
            R"({"status":{"capacity":{"osml.dev/batch-millicpu":"12000"},"conditions":[{)"
            R"("lastHeartbeatTime":"2025-11-25T12:01:00Z","lastTransitionTime":"2025-11-25T12:00:00Z",)"
            R"("message":"These services meet their latency targets: api, search.","reason":"TargetsMet",)"
            R"("status":"True","type":"osml.dev/LatencyTargetsMet"}]}})");
}

TEST(KubernetesBodies, AStoppedAgentTakesTheResourceAway) {
  const StatusPatch patch{stopped_condition(), noon, noon, JobsResource{}};
  EXPECT_EQ(status_body(patch),
            R"({"status":{"capacity":{"osml.dev/batch-millicpu":null},"conditions":[{)"
            R"("lastHeartbeatTime":"2025-11-25T12:00:00Z","lastTransitionTime":"2025-11-25T12:00:00Z",)"
            R"("message":"The agent was stopped.","reason":"AgentStopped","status":"Unknown",)"
            R"("type":"osml.dev/LatencyTargetsMet"}]}})");
}

TEST(KubernetesBodies, WhatIsOffIsNotSaid) {
  EXPECT_EQ(status_body({std::nullopt, noon, noon, JobsResource{0}}),
            R"({"status":{"capacity":{"osml.dev/batch-millicpu":"0"}}})");
  EXPECT_EQ(json::parse(status_body({stopped_condition(), noon, noon, std::nullopt}))["status"].size(), 1U);
}

TEST(KubernetesBodies, EveryStandingHasAStatusAReasonAndASentence) {
  struct Case {
    Verdict verdict;
    const char* status;
    const char* reason;
    const char* message;
  };
  const std::vector<Case> cases = {
      {verdict(Standing::Missed), "False", "TargetsMissed", "These services miss their latency targets: api, search."},
      {verdict(Standing::Infeasible, {"api"}, "2 cores short"), "False", "Infeasible",
       "This node cannot meet the latency targets of api: 2 cores short"},
      {verdict(Standing::Infeasible, {}), "False", "Infeasible",
       "This node cannot meet the latency targets of its services."},
      {verdict(Standing::Unmeasured), "Unknown", "LatencyUnknown",
       "The latency of these services is unknown: api, search."},
      {verdict(Standing::NoDecision), "Unknown", "NoDecision", "The agent gets no decisions from the server."},
      {verdict(Standing::NotManaged), "Unknown", "NotManaged", "No service with a latency target is on this node."}};
  for (const Case& each : cases) {
    const Condition condition = condition_of(each.verdict);
    EXPECT_EQ(condition.status, each.status);
    EXPECT_EQ(condition.reason, each.reason);
    EXPECT_EQ(condition.message, each.message);
  }
}

TEST(KubernetesBodies, WordsOfOthersAreCutAndCleaned) {
  const std::string hostile = "\x1b[31m\xff\n" + std::string(5000, 'x');
  std::set<std::string> many;
  for (int i = 10; i < 30; ++i) many.insert("s" + std::to_string(i));
  const Condition condition = condition_of(verdict(Standing::Infeasible, many, hostile));
  EXPECT_LT(condition.message.size(), 1024U);
  EXPECT_THAT(condition.message, HasSubstr("s10, s11, s12, s13, s14, s15, s16, s17 and 12 more: ?[31m"));
  EXPECT_TRUE(json::accept(status_body({condition, noon, noon, std::nullopt})));
}

TEST(KubernetesBodies, ANewEventAndItsRepetition) {
  const EventText text = *event_of(verdict(Standing::Infeasible, {"api"}, "2 cores short"), false);
  EXPECT_EQ(event_body("node-17", "node-17.18", text, {1, noon, noon}),
            R"({"apiVersion":"v1","count":1,"firstTimestamp":"2025-11-25T12:00:00Z",)"
            R"("involvedObject":{"apiVersion":"v1","kind":"Node","name":"node-17","uid":"node-17"},"kind":"Event",)"
            R"("lastTimestamp":"2025-11-25T12:00:00Z",)"
            R"("message":"This node cannot meet the latency targets of api: 2 cores short",)"
            R"("metadata":{"name":"node-17.18","namespace":"default"},"reason":"LatencyTargetsInfeasible",)"
            R"("reportingComponent":"osml-agent","reportingInstance":"node-17",)"
            R"("source":{"component":"osml-agent","host":"node-17"},"type":"Warning"})");
  EXPECT_EQ(repeated_event_body(text, {4, noon, noon + 600}),
            R"({"count":4,"lastTimestamp":"2025-11-25T12:10:00Z",)"
            R"("message":"This node cannot meet the latency targets of api: 2 cores short"})");
}

TEST(KubernetesBodies, GoodNewsIsAnEventOnlyAfterBadNews) {
  EXPECT_EQ(event_of(verdict(Standing::Met), true)->reason, "LatencyTargetsMet");
  EXPECT_EQ(event_of(verdict(Standing::Met), true)->type, "Normal");
  EXPECT_EQ(event_of(verdict(Standing::Missed), false)->reason, "LatencyTargetsMissed");
  EXPECT_FALSE(event_of(verdict(Standing::Met), false));
  for (const Standing quiet : {Standing::NoDecision, Standing::NotManaged, Standing::Unmeasured}) {
    EXPECT_FALSE(event_of(verdict(quiet), true));
  }
}

}  // namespace
}  // namespace osml
