// Which decisions become experiences: those that the machine had from one observation to the next.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experience/collector.h"

namespace osml {
namespace {

using nlohmann::json;

class Source : public DecisionSource {
 public:
  Answer ask(const Observation& observation) override {
    if (silent) return AskError{AskFailure::Unreachable, "nobody there", std::nullopt};
    Decision decision;
    decision.seq = observation.seq;
    const json text = {{"node", observation.node},
                       {"seq", observation.seq},
                       {"forecasts", {{{"service", "moses"}}}},
                       {"policy_state", std::string(5000, 's')}};
    return {decision, text.dump(2)};
  }
  bool silent = false;
};

class ExperienceCollectorTest : public testing::Test {
 protected:
  Observation observation(std::uint64_t seq, OutcomeStatus status = OutcomeStatus::Applied) {
    Observation made;
    made.node = "demo";
    made.seq = seq;
    made.policy_state = std::string(5000, 's');
    if (seq > 1) made.outcome = Outcome{seq - 1, status, "", 1.0};
    if (seq > 1) made.partition = Partition{};
    return made;
  }
  void ask(const Observation& asked) { (void)collector_.ask(asked); }
  json experiences() {
    const auto batch = buffer_.batch(256, 1U << 20U);
    return batch ? json::parse(batch->body).at("experiences") : json::array();
  }

  Source source_;
  ExperienceBuffer buffer_;
  ExperienceCollector collector_{source_, buffer_};
};

TEST_F(ExperienceCollectorTest, ADecisionAndWhatCameOfIt) {
  ask(observation(1));
  EXPECT_EQ(experiences().size(), 0U);
  ask(observation(2, OutcomeStatus::Unchanged));
  ask(observation(3));
  const json found = experiences();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].at("before").at("seq"), 1);
  EXPECT_EQ(found[0].at("decision").at("seq"), 1);
  EXPECT_EQ(found[0].at("decision").at("forecasts")[0].at("service"), "moses") << "all that the server said";
  EXPECT_EQ(found[0].at("after").at("seq"), 2);
  EXPECT_EQ(found[0].at("after").at("outcome").at("status"), "unchanged");
  EXPECT_EQ(found[1].at("before"), found[0].at("after"));
}

TEST_F(ExperienceCollectorTest, ThePolicysStateStaysHere) {
  ask(observation(1));
  ask(observation(2));
  const json found = experiences();
  for (const char* part : {"before", "decision", "after"}) {
    EXPECT_TRUE(found[0].at(part).at("policy_state").is_null()) << part;
  }
}

TEST_F(ExperienceCollectorTest, WhatWasNotCarriedOutIsNone) {
  ask(observation(1));
  std::uint64_t seq = 2;
  for (const OutcomeStatus status :
       {OutcomeStatus::Refused, OutcomeStatus::RolledBack, OutcomeStatus::Failed, OutcomeStatus::DryRun})
    ask(observation(seq++, status));
  EXPECT_EQ(experiences().size(), 0U);
}

TEST_F(ExperienceCollectorTest, WhatSomebodyElseChangedMeanwhileIsNone) {
  ask(observation(1));
  Observation changed = observation(2);
  changed.partition.reset();
  ask(changed);
  EXPECT_EQ(experiences().size(), 0U);
}

TEST_F(ExperienceCollectorTest, AGapMakesNone) {
  ask(observation(1));
  ask(observation(3));  // the outcome is of 2
  Observation late = observation(5);
  late.outcome->seq = 3;  // 4 was never asked about
  ask(late);
  EXPECT_EQ(experiences().size(), 0U);
}

TEST_F(ExperienceCollectorTest, ASilentServerEndsTheOneBeforeAndBeginsNone) {
  ask(observation(1));
  source_.silent = true;
  ask(observation(2));  // what came of decision 1 is seen here
  ask(observation(3));
  source_.silent = false;
  ask(observation(4));
  EXPECT_EQ(experiences().size(), 1U);
}

TEST_F(ExperienceCollectorTest, BytesThatAreNoUtf8StopNothing) {
  ask(observation(1));
  Observation odd = observation(2);
  odd.outcome->message = "\xff\xfe";
  ask(odd);
  EXPECT_EQ(experiences().size(), 1U);
}

TEST_F(ExperienceCollectorTest, NothingIsCollectedThatNobodyWants) {
  buffer_.close();
  ask(observation(1));
  ask(observation(2));
  EXPECT_EQ(buffer_.size(), 0U);
}

}  // namespace
}  // namespace osml
