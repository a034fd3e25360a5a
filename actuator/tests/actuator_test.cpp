#include "apply/actuator.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tree.h"

namespace osml {
namespace {

using testing_support::Tree;

class ActuatorTest : public testing::Test {
 protected:
  ActuatorTest() {
    tree_.sysfs().cgroup2("a", 10).cgroup2("b", 20);
    config_ = tree_.config();
    decision_.node = "n";
    decision_.seq = 3;
    decision_.partition.regions = {{{"lc"}, 5, 0}, {{"be"}, 3, 0}};
    decision_.assignments = {{"lc", "0-4", {}, {}, {}, {}}, {"be", "5-7", {}, {}, {}, {}}};
  }
  Result<Actuator> open() { return Actuator::open(config_); }
  [[nodiscard]] std::string cpus(const std::string& group) const {
    return tree_.text("cgroup/" + group + "/cpuset.cpus");
  }

  Tree tree_;
  Config config_;
  Decision decision_;
};

TEST_F(ActuatorTest, AppliesOnceAndIsThenUnchanged) {
  auto actuator = open();
  ASSERT_TRUE(actuator) << actuator.error().message;
  const Outcome applied = actuator->apply(decision_);
  EXPECT_EQ(applied.status, OutcomeStatus::Applied) << applied.message;
  EXPECT_EQ(applied.seq, 3U);
  EXPECT_EQ(cpus("a"), "0-4");
  EXPECT_EQ(cpus("b"), "5-7");
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  EXPECT_EQ(*(*actuator->read())[0].cpus, "0-4");
}

TEST_F(ActuatorTest, ADryRunWritesNothing) {
  auto actuator = open();
  const Outcome outcome = actuator->apply(decision_, true);
  EXPECT_EQ(outcome.status, OutcomeStatus::DryRun);
  EXPECT_EQ(outcome.message, "lc: cpus - -> 0-4\nbe: cpus - -> 5-7");
  EXPECT_EQ(cpus("a"), "");
  EXPECT_FALSE(osml::exists(tree_ / "state/journal.json"));
}

TEST_F(ActuatorTest, ARefusedDecisionTouchesNothing) {
  auto actuator = open();
  decision_.assignments[1].cpus = "5-8";
  const Outcome outcome = actuator->apply(decision_);
  EXPECT_EQ(outcome.status, OutcomeStatus::Refused);
  EXPECT_EQ(cpus("a"), "");
}

TEST_F(ActuatorTest, AStepThatFailsLeavesEverythingAsItWas) {
  tree_.write("cgroup/b/cpuset.cpus.effective", "6-7\n");  // the parent group does not have CPU 5
  auto actuator = open();
  const Outcome outcome = actuator->apply(decision_);
  EXPECT_EQ(outcome.status, OutcomeStatus::RolledBack);
  EXPECT_NE(outcome.message.find("the kernel allows 6-7"), std::string::npos) << outcome.message;
  EXPECT_EQ(cpus("a"), "");
  EXPECT_EQ(cpus("b"), "");
  const auto journal = nlohmann::json::parse(tree_.text("state/journal.json"));
  EXPECT_TRUE(journal["originals"].empty());
  EXPECT_TRUE(journal["pending"].empty());
}

TEST_F(ActuatorTest, ATransactionThatWasInterruptedIsUndoneAtTheNextStart) {
  tree_.write("cgroup/a/cpuset.cpus", "0-4\n").write("cgroup/b/cpuset.cpus", "\n");
  fs::create_directory(tree_ / "state");
  tree_.write("state/journal.json", R"({"version": 1,
      "originals": [{"service": "lc", "knob": "cpus", "backend": "cgroup2", "match": {"cgroup": "a"}, "snapshot": ""}],
      "pending": [{"service": "lc", "knob": "cpus", "backend": "cgroup2", "match": {"cgroup": "a"}, "snapshot": "0-1"},
                  {"service": "be", "knob": "cpus", "backend": "cgroup2", "match": {"cgroup": "b"}, "snapshot": "2-7"}]})");
  auto actuator = open();
  ASSERT_TRUE(actuator);
  EXPECT_NE(actuator->healed().find("undid 2 settings"), std::string::npos);
  EXPECT_EQ(cpus("a"), "0-1");
  EXPECT_EQ(cpus("b"), "2-7");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus("a"), "");  // what was found before the first change
}

TEST_F(ActuatorTest, RestoreReturnsToWhatWasFoundAndIsIdempotent) {
  tree_.write("cgroup/a/cpuset.cpus", "0-1\n");
  {
    auto actuator = open();
    ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
    decision_.assignments[0].cpus = "0-2";
    ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  }                                    // the agent was killed without restoring
  fs::remove_all(tree_ / "cgroup/b");  // and a service has gone
  auto again = open();
  ASSERT_TRUE(again->restore());
  EXPECT_EQ(cpus("a"), "0-1");
  ASSERT_TRUE(again->restore());
  EXPECT_EQ(again->apply(decision_).status, OutcomeStatus::Applied);
}

TEST_F(ActuatorTest, OneAgentAStateDirectory) {
  const auto first = open();
  const auto second = open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Busy);
  EXPECT_TRUE(Actuator::open(config_, {.read_only = true}));
}

TEST_F(ActuatorTest, AStateDirectoryThatEverybodyCanWriteIsRefused) {
  fs::create_directory(config_.state_dir);
  fs::permissions(config_.state_dir, fs::perms::all);
  const auto actuator = open();
  ASSERT_FALSE(actuator);
  EXPECT_EQ(actuator.error().kind, ErrorKind::Input);
  EXPECT_NE(actuator.error().message.find("chmod o-w"), std::string::npos);
}

TEST_F(ActuatorTest, LookingOnlyWritesNothing) {
  auto actuator = Actuator::open(config_, {.read_only = true});
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Failed);
  EXPECT_FALSE(actuator->restore());
  EXPECT_FALSE(osml::exists(config_.state_dir));
  EXPECT_EQ(cpus("a"), "");
}

TEST_F(ActuatorTest, AServiceThatIsNotThereDoesNotStopTheOthers) {
  fs::remove_all(tree_ / "cgroup/b");
  auto actuator = open();
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(cpus("a"), "0-4");
  tree_.cgroup2("b", 20);
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(cpus("b"), "5-7");
}

TEST_F(ActuatorTest, ThePlatformSaysWhatTheMachineHas) {
  tree_.resctrl();
  const auto actuator = open();
  const Platform& platform = actuator->platform();
  EXPECT_EQ(platform.cpus, "0-7");
  EXPECT_EQ(platform.cores, 8U);
  EXPECT_EQ(platform.ways, 20U);
  EXPECT_EQ(platform.way_mib, 1.0);
  EXPECT_EQ(platform.max_groups, 8U);
  EXPECT_EQ(platform.siblings.size(), 4U);
  ASSERT_EQ(platform.domains.size(), 1U);
  EXPECT_EQ(platform.domains[0].cpus, "0-7");
  EXPECT_EQ(platform.mba->step, 10U);
  EXPECT_FALSE(actuator->missing().contains("llc_ways"));
  EXPECT_TRUE(actuator->missing().contains("llc_monitoring"));
}

TEST_F(ActuatorTest, FewerCpusThanServicesMeansSlicesOfQuota) {
  tree_.write("sys/devices/system/cpu/online", "0\n");
  auto actuator = open();
  EXPECT_EQ(actuator->platform().core_quantum, 0.1);
  EXPECT_EQ(actuator->platform().cores, 10U);
  const Decision even = actuator->even_decision();
  EXPECT_DOUBLE_EQ(*even.assignments[0].cpu_quota, 0.5);
  EXPECT_FALSE(even.assignments[0].cpus);
  EXPECT_EQ(actuator->apply(even).status, OutcomeStatus::Applied);
  EXPECT_EQ(tree_.text("cgroup/a/cpu.max"), "5000 10000");
}

TEST_F(ActuatorTest, SlicesDoNotChangeWhatALimitOfCoresIs) {
  tree_.write("sys/devices/system/cpu/online", "0\n");
  config_.services[0].spec.max_cores = 1;
  decision_.partition.regions = {{{"lc"}, 9, 0}, {{"be"}, 1, 0}};
  decision_.assignments = {{"lc", {}, 0.9, {}, {}, {}}, {"be", {}, 0.1, {}, {}, {}}};
  auto actuator = open();
  ASSERT_EQ(actuator->platform().core_quantum, 0.1);
  const Outcome outcome = actuator->apply(decision_);
  EXPECT_EQ(outcome.status, OutcomeStatus::Applied) << outcome.message;
  EXPECT_DOUBLE_EQ(*actuator->even_decision().assignments[0].cpu_quota, 0.5);
}

TEST_F(ActuatorTest, AServiceThatIsOnlyWatchedMakesNoSlices) {
  tree_.write("sys/devices/system/cpu/online", "0\n");
  config_.services[1].watched = true;
  auto actuator = open();
  EXPECT_EQ(actuator->platform().core_quantum, 1);
}

TEST_F(ActuatorTest, TheEvenDecisionIsAppliedAsItIs) {
  config_.services[0].spec.max_cores = 2;
  auto actuator = open();
  const Outcome outcome = actuator->apply(actuator->even_decision());
  EXPECT_EQ(outcome.status, OutcomeStatus::Applied) << outcome.message;
  EXPECT_EQ(cpus("a"), "0-1");
  EXPECT_EQ(cpus("b"), "2-7");
}

TEST_F(ActuatorTest, TheEvenDecisionIsNoStepOfAPolicy) {
  tree_.write("cgroup/a/cpuset.cpus", "0-6\n").write("cgroup/b/cpuset.cpus", "7\n");
  for (ServiceConfig& service : config_.services) service.limits.max_core_step = 1;
  auto actuator = open();
  Decision even = actuator->even_decision();
  EXPECT_EQ(actuator->apply(even).status, OutcomeStatus::Applied);
  EXPECT_EQ(cpus("a"), "0-3");
  tree_.write("cgroup/a/cpuset.cpus", "0-6\n");
  even.own = false;
  EXPECT_EQ(actuator->apply(even).status, OutcomeStatus::Refused);
}

}  // namespace
}  // namespace osml
