// From a turn of the loop to what the cluster is told of it.
#include "daemon/cluster_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace osml {
namespace {

using testing::ElementsAre;

std::vector<ServiceConfig> services() {
  std::vector<ServiceConfig> made(3);
  made[0].spec.name = "search";
  made[1].spec.name = "batch";
  made[1].spec.kind = "be";
  made[2].spec.name = "sort";
  made[2].spec.kind = "be";
  return made;
}

Platform platform() {
  Platform made;
  made.cores = 40;
  made.core_quantum = 0.1;
  return made;
}

ClusterFacts facts(const TurnReport& report, const std::optional<Partition>& partition = std::nullopt) {
  return cluster_facts(report, partition, platform(), services());
}

TEST(ClusterFacts, TheWorstOfTheTurnIsWhatCounts) {
  TurnReport report;
  report.idle = true;
  EXPECT_EQ(facts(report).standing, Standing::NotManaged);
  EXPECT_EQ(facts(report).jobs_cpus, 0);
  report = {};
  report.met = {"search"};
  EXPECT_EQ(facts(report).standing, Standing::Met);
  EXPECT_THAT(facts(report).services, ElementsAre("search"));
  report.unmeasured = {"api"};
  EXPECT_EQ(facts(report).standing, Standing::Unmeasured);
  report.missed = {"shop"};
  EXPECT_EQ(facts(report).standing, Standing::Missed);
  EXPECT_THAT(facts(report).services, ElementsAre("shop"));
  report.infeasible = true;
  report.infeasible_services = {"shop", "api"};
  report.infeasible_words = "too little";
  EXPECT_EQ(facts(report).standing, Standing::Infeasible);
  EXPECT_EQ(facts(report).words, "too little");
  EXPECT_THAT(facts(report).services, ElementsAre("shop", "api"));
  EXPECT_THAT(facts(report).missed, ElementsAre("shop"));
  report.failure = AskFailure::Unreachable;
  EXPECT_EQ(facts(report).standing, Standing::NoDecision);
}

TEST(ClusterFacts, JobsHaveTheirRegionsAndTheirShareOfSharedOnes) {
  const Partition partition{{{{"search"}, 10, 0}, {{"batch"}, 12, 0}, {{"search", "sort"}, 18, 0}}, {}};
  EXPECT_DOUBLE_EQ(cpus_of_jobs(partition, services(), 0.1), 1.2 + 0.9);
  EXPECT_EQ(cpus_of_jobs({{{{}, 12, 0}, {{"gone"}, 3, 0}}, {}}, services(), 1), 0);
}

TEST(ClusterFacts, NothingIsLeftToJobsWhereNobodyLooksAfterTheServices) {
  const Partition partition{{{{"search"}, 10, 0}, {{"batch"}, 30, 0}}, {}};
  TurnReport report;
  report.met = {"search"};
  EXPECT_DOUBLE_EQ(facts(report, partition).jobs_cpus.value_or(-1), 3);
  EXPECT_DOUBLE_EQ(facts(report, partition).machine_cpus, 4);
  EXPECT_EQ(facts(report).jobs_cpus, std::nullopt) << "what is in force is not known";
  report.failure = AskFailure::Busy;
  report.state = AgentState::Holding;
  EXPECT_DOUBLE_EQ(facts(report, partition).jobs_cpus.value_or(-1), 3) << "the allocation is held";
  report.overdue = true;
  EXPECT_EQ(facts(report, partition).jobs_cpus, 0);
}

}  // namespace
}  // namespace osml
