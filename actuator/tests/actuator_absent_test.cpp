// Services that are not there, come, go and come back: they cost nobody anything and leave nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apply/actuator.h"
#include "tree.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing_support::Tree;

class ActuatorAbsentTest : public testing::Test {
 protected:
  ActuatorAbsentTest() {
    tree_.sysfs().cgroup2("a", 10);
    config_ = tree_.config();
    alone_ = decision({{"lc", "0-7", {}, {}, {}, {}}});
    both_ = decision({{"lc", "0-4", {}, {}, {}, {}}, {"be", "5-7", {}, {}, {}, {}}});
  }
  static Decision decision(const std::vector<Assignment>& assignments) {
    Decision made;
    made.node = "n";
    made.assignments = assignments;
    for (const Assignment& one : assignments) made.partition.regions.push_back({{one.service}, 1, 1});
    return made;
  }
  [[nodiscard]] std::string cpus(const std::string& group) const {
    return tree_.text("cgroup/" + group + "/cpuset.cpus");
  }
  [[nodiscard]] nlohmann::json journal() const { return nlohmann::json::parse(tree_.text("state/journal.json")); }
  [[nodiscard]] std::size_t originals_of(const std::string& service) const {
    const auto document = journal();
    return static_cast<std::size_t>(
        std::count_if(document["originals"].begin(), document["originals"].end(),
                      [&](const nlohmann::json& saved) { return saved["service"] == service; }));
  }

  Tree tree_;
  Config config_;
  Decision alone_, both_;
};

TEST_F(ActuatorAbsentTest, AServiceWithoutACgroupIsNamedAndLeftOut) {
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(absent_in_words(actuator->places()), "be (cgroup b does not exist)");
  ASSERT_EQ(actuator->read()->size(), 1U);
  EXPECT_EQ((*actuator->read())[0].service, "lc");
  EXPECT_EQ(actuator->even_decision().assignments.size(), 1U);
  EXPECT_EQ(actuator->even_decision().assignments[0].cpus, "0-7");
  EXPECT_EQ(actuator->apply(alone_).status, OutcomeStatus::Applied);
  EXPECT_EQ(cpus("a"), "0-7");
}

TEST_F(ActuatorAbsentTest, ProcessesAreAbsentAsWell) {
  config_.services[0].match = {};
  config_.services[0].match.pids = {77, 78};
  config_.services[1].match = {};
  config_.services[1].match.pid_file = tree_ / "be.pid";
  auto actuator = Actuator::open(config_, {.read_only = true});
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(actuator->places()[0].why, "there is no process 77, 78");
  EXPECT_EQ(actuator->places()[1].why, "pid_file " + (tree_ / "be.pid").string() + " does not exist");
  tree_.write("be.pid", "79\n");
  ASSERT_TRUE(actuator->look());
  EXPECT_THAT(actuator->places()[1].why, HasSubstr("that pid_file"));
  tree_.write("proc/79/task/79/comm", "job\n");
  ASSERT_TRUE(actuator->look());
  EXPECT_FALSE(actuator->places()[1].absent);
}

TEST_F(ActuatorAbsentTest, AnIdThatComesUpAgainIsAStranger) {
  const auto start = [this](int pid, const char* ticks) {
    const std::string base = "proc/" + std::to_string(pid);
    tree_.write(base + "/task/" + std::to_string(pid) + "/comm", "x\n");
    tree_.write(base + "/stat", std::to_string(pid) + " (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 " + ticks + " 0\n");
  };
  config_.services[0].match = {};
  config_.services[0].match.pids = {77, 78};
  start(77, "100");
  start(78, "100");
  auto actuator = Actuator::open(config_, {.read_only = true});
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(actuator->places()[0].match.pids, (std::vector<int>{77, 78}));
  start(78, "900");
  ASSERT_TRUE(actuator->look());
  EXPECT_EQ(actuator->places()[0].match.pids, std::vector<int>{77});
  start(77, "900");
  ASSERT_TRUE(actuator->look());
  EXPECT_TRUE(actuator->places()[0].absent);
  EXPECT_EQ(actuator->places()[0].why, "the processes 77, 78 have ended, and others have their ids now");
}

TEST_F(ActuatorAbsentTest, ALateAnswerThatNamesIsNoErrorAndOneThatDoesNotNameAFreshServiceIsNone) {
  auto actuator = Actuator::open(config_);
  const Outcome late = actuator->apply(both_);
  EXPECT_EQ(late.status, OutcomeStatus::Applied) << late.message;
  EXPECT_EQ(cpus("a"), "0-4");
  // It comes between the observation and its decision.
  tree_.cgroup2("b", 20);
  const Outcome early = actuator->apply(alone_);
  EXPECT_EQ(early.status, OutcomeStatus::Applied) << early.message;
  EXPECT_EQ(cpus("b"), "");
  // The next observation has it, so the next decision must.
  ASSERT_TRUE(actuator->reconcile());
  const Outcome incomplete = actuator->apply(alone_);
  EXPECT_EQ(incomplete.status, OutcomeStatus::Refused);
  EXPECT_THAT(incomplete.message, HasSubstr("'be' has no assignment"));
  EXPECT_EQ(actuator->apply(both_).status, OutcomeStatus::Applied);
  EXPECT_EQ(cpus("b"), "5-7");
}

TEST_F(ActuatorAbsentTest, WhatVanishesIsForgottenOnceADecisionLeavesItOut) {
  tree_.cgroup2("b", 20);
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(both_).status, OutcomeStatus::Applied);
  EXPECT_EQ(originals_of("be"), 1U);
  fs::remove_all(tree_ / "cgroup/b");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(originals_of("be"), 0U);
  EXPECT_EQ(actuator->apply(alone_).status, OutcomeStatus::Applied);
  tree_.cgroup2("b", 30);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus("b"), "") << "its CPUs are lc's by now";
  EXPECT_EQ(actuator->read()->size(), 2U);
}

TEST_F(ActuatorAbsentTest, AGroupThatCannotBeLookedAtIsNotAbsent) {
  tree_.cgroup2("b", 20);
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(both_).status, OutcomeStatus::Applied);
  fs::remove_all(tree_ / "cgroup/b");
  fs::create_symlink("b", tree_ / "cgroup/b");  // ELOOP
  (void)actuator->reconcile();
  EXPECT_FALSE(actuator->places()[1].absent);
  EXPECT_FALSE(actuator->places()[1].looked_at);
  EXPECT_EQ(originals_of("be"), 1U);
}

TEST_F(ActuatorAbsentTest, AReturnWithoutADecisionBetweenGetsTheLastValuesAgain) {
  tree_.cgroup2("b", 20);
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(both_).status, OutcomeStatus::Applied);
  fs::remove_all(tree_ / "cgroup/b");
  ASSERT_TRUE(actuator->reconcile());
  tree_.cgroup2("b", 30);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus("b"), "5-7");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus("a"), "");
  EXPECT_EQ(cpus("b"), "");
}

// What was found of a cgroup is what it had before the agent wrote there, whatever else happens in that interval.
TEST_F(ActuatorAbsentTest, AReturnWhileACpuGoesOfflineIsPutBackAsItCame) {
  tree_.cgroup2("b", 20);
  both_ = decision({{"lc", "0-4", {}, {}, {}, {}}, {"be", "5-6", {}, {}, {}, {}}});
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(both_).status, OutcomeStatus::Applied);
  fs::remove_all(tree_ / "cgroup/b");
  ASSERT_TRUE(actuator->reconcile());
  tree_.cgroup2("b", 30).write("sys/devices/system/cpu/online", "0-6\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus("b"), "5-6");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus("b"), "");
}

TEST_F(ActuatorAbsentTest, AReturnToAGroupThatWasRemovedIsPutBackAsItCame) {
  tree_.cgroup2("b", 20).resctrl().write("resctrl/schemata", "    L3:0=fffff\n");
  const auto make_files = [this] {
    for (const char* without : {"resctrl/info/MB", "proc/10", "proc/20", "proc/30"}) fs::remove_all(tree_ / without);
    for (const char* group : {"resctrl/osml-lc", "resctrl/osml-be"}) {
      tree_.write(std::string(group) + "/schemata", "    L3:0=fffff\n").write(std::string(group) + "/tasks", "");
    }
  };
  make_files();
  both_.partition.regions = {{{"lc"}, 5, 10}, {{"be"}, 3, 10}};
  both_.assignments[0].way_mask = 0x3ff;
  both_.assignments[1].way_mask = 0xffc00;
  auto actuator = Actuator::open(config_);
  const Outcome outcome = actuator->apply(both_);
  ASSERT_EQ(outcome.status, OutcomeStatus::Applied) << outcome.message;
  fs::remove_all(tree_ / "cgroup/b");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_FALSE(osml::exists(tree_ / "resctrl/osml-be"));
  tree_.cgroup2("b", 30);
  EXPECT_FALSE(actuator->reconcile()) << "nobody makes the group's files here";
  make_files();
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus("b"), "5-7");
  EXPECT_EQ(tree_.text("resctrl/osml-be/schemata"), "L3:0=ffc00");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus("b"), "");
}

}  // namespace
}  // namespace osml
