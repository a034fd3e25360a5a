#include "plan/group_sharing.h"

#include <gtest/gtest.h>

#include "plan/plan.h"
#include "tree.h"

namespace osml {
namespace {

using testing_support::Tree;

Wanted own(const std::string& service, std::uint64_t ways, unsigned mba) {
  return wanted_values({service, {}, {}, {}, ways, mba});
}

std::map<std::string, Wanted> three() {
  return {{"a", own("a", 0xf0, 100)}, {"j1", own("j1", 0xf, 50)}, {"j2", own("j2", 0xf, 50)}};
}

TEST(GroupSharingTest, EverybodyHasAGroupWhereThereAreEnough) {
  for (const GroupLimit limit : {GroupLimit(3), GroupLimit()}) {
    auto services = three();
    share_groups(services, limit, {}, {});
    EXPECT_EQ(services, three());
  }
}

TEST(GroupSharingTest, EqualsShareTheGroupOfOneWhereThereAreTooFew) {
  auto services = three();
  EXPECT_EQ(needed_groups(services, {}), 2U);
  share_groups(services, 2, {}, {});
  EXPECT_EQ(services.at("a"), three().at("a"));
  EXPECT_EQ(services.at("j1"), three().at("j1"));
  EXPECT_EQ(services.at("j2"), (Wanted{{Aspect::Group, ""}, {Aspect::Tasks, "osml-j1"}}));
}

TEST(GroupSharingTest, TheHostIsOneThatHasAGroupAlready) {
  auto services = three();
  share_groups(services, 2, {}, {"j2"});
  EXPECT_EQ(services.at("j1").at(Aspect::Tasks), "osml-j2");
  EXPECT_EQ(services.at("j2"), three().at("j2"));
}

TEST(GroupSharingTest, WhoIsCountedAloneSharesWithNobody) {
  auto services = three();
  EXPECT_EQ(needed_groups(services, {"j2"}), 3U);
}

TEST(GroupSharingTest, AnotherThrottleIsAnotherGroup) {
  auto services = three();
  services["j2"] = own("j2", 0xf, 40);
  EXPECT_EQ(needed_groups(services, {}), 3U);
}

TEST(GroupSharingTest, AGroupThatGoesIsLeftFirstAndMakesRoomForTheNew) {
  const std::vector<Change> changes = {
      {"b", Aspect::Group, "present", ""},      {"b", Aspect::Tasks, "osml-b", "osml-a"},
      {"c", Aspect::Group, "", "present"},      {"c", Aspect::Ways, "", "f0"},
      {"c", Aspect::Tasks, "osml-b", "osml-c"}, {"a", Aspect::Ways, "ff", "f"}};
  std::vector<std::string> lines;
  for (const Step& step : plan(changes, {})) lines.push_back(describe(changes[step.change], step));
  EXPECT_EQ(lines,
            (std::vector<std::string>{"a: way_mask ff -> f", "b: tasks osml-b -> osml-a", "b: group present -> -",
                                      "c: group - -> present", "c: way_mask - -> f0", "c: tasks osml-b -> osml-c"}));
}

TEST(GroupSharingTest, MoreGroupsThanThereAreIsRefusedBeforeAnythingIsMade) {
  Tree tree;
  tree.sysfs().cgroup2("a", 10).cgroup2("b", 20).resctrl().write("resctrl/info/L3/num_closids", "3\n");
  tree.write("resctrl/other/tasks", "");  // another program's group
  const Config config = tree.config();
  auto actuator = Actuator::open(config);
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(actuator->platform().max_groups, 2U);  // what policies count with
  Decision decision;
  decision.node = "n";
  decision.partition.regions = {{{"lc"}, 5, 10}, {{"be"}, 3, 10}};
  decision.assignments = {{"lc", {}, {}, {}, 0x3ff, {}}, {"be", {}, {}, {}, 0xffc00, {}}};
  const Outcome outcome = actuator->apply(decision);
  EXPECT_EQ(outcome.status, OutcomeStatus::Refused);
  EXPECT_EQ(outcome.message,
            "the assignments need 2 cache groups, but this node has room for 1; give more services the same way_mask "
            "and the same mba");
  EXPECT_FALSE(osml::exists(tree / "resctrl/osml-lc"));
}

TEST(GroupSharingTest, WithoutAFreeGroupNobodyIsToldOfWaysUntilThereIsOne) {
  Tree tree;
  tree.sysfs().cgroup2("a", 10).cgroup2("b", 20).resctrl().write("resctrl/info/L3/num_closids", "2\n");
  tree.write("resctrl/other/tasks", "");  // another program's group
  const Config config = tree.config();
  auto actuator = Actuator::open(config);
  ASSERT_TRUE(actuator) << actuator.error().message;
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->platform().max_groups, 1U);
  EXPECT_FALSE(actuator->platform().ways);
  EXPECT_FALSE(actuator->platform().way_mib);
  EXPECT_FALSE(actuator->platform().mba);
  ASSERT_TRUE(actuator->missing().contains("cache_groups"));
  EXPECT_NE(actuator->missing().at("cache_groups").find("none is free"), std::string::npos);
  Decision decision;
  decision.node = "n";
  decision.partition.regions = {{{"lc"}, 5, 0}, {{"be"}, 3, 0}};
  decision.assignments = {{"lc", "0-4", {}, {}, {}, {}}, {"be", "5-7", {}, {}, {}, {}}};
  const Outcome outcome = actuator->apply(decision);
  EXPECT_EQ(outcome.status, OutcomeStatus::Applied) << outcome.message;
  EXPECT_TRUE(took_effect(actuator->apply(actuator->even_decision())));
  fs::remove_all(tree / "resctrl/other");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->platform().max_groups, 2U);
  EXPECT_EQ(actuator->platform().ways, 20U);
  EXPECT_TRUE(actuator->platform().mba);
  EXPECT_FALSE(actuator->missing().contains("cache_groups"));
}

TEST(GroupSharingTest, AGuestHasLostNoGroup) {
  Tree tree;
  tree.sysfs().cgroup2("a", 10).cgroup2("b", 20).resctrl().write("resctrl/schemata", "    L3:0=fffff\n");
  tree.write("resctrl/info/L3/num_closids", "2\n");
  tree.write("resctrl/osml-be/schemata", "    L3:0=fffff\n").write("resctrl/osml-be/tasks", "");
  for (const char* without : {"resctrl/info/MB", "proc/10", "proc/20"}) fs::remove_all(tree / without);
  const Config config = tree.config();
  auto actuator = Actuator::open(config);
  ASSERT_TRUE(actuator) << actuator.error().message;
  Decision decision;
  decision.node = "n";
  decision.partition.regions = {{{"lc"}, 5, 10}, {{"be"}, 3, 10}};
  decision.assignments = {{"lc", "0-4", {}, {}, 0x3ff, {}}, {"be", "5-7", {}, {}, 0x3ff, {}}};
  const Outcome outcome = actuator->apply(decision);
  ASSERT_EQ(outcome.status, OutcomeStatus::Applied) << outcome.message;
  EXPECT_FALSE(osml::exists(tree / "resctrl/osml-lc")) << "lc is a guest of be";
  EXPECT_EQ((*actuator->read())[0].way_mask, (*actuator->read())[1].way_mask) << "it has the ways of its host";
  EXPECT_TRUE((*actuator->read())[0].way_mask);
  tree.write("cgroup/a/cpuset.cpus", "0-7\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(tree.text("cgroup/a/cpuset.cpus"), "0-7") << "what another program sets is the next decision's matter";
}

TEST(GroupSharingTest, TheEvenFallbackFitsIntoTheGroups) {
  Tree tree;
  tree.sysfs().cgroup2("a", 10).cgroup2("b", 20).resctrl().write("resctrl/info/MB/num_closids", "2\n");
  const Config config = tree.config();
  auto actuator = Actuator::open(config);
  const Decision even = actuator->even_decision();
  EXPECT_FALSE(even.assignments[0].way_mask) << "all share all, as found";
  EXPECT_FALSE(even.assignments[1].way_mask);
}

TEST(GroupSharingTest, TheEvenFallbackIsRefusedForNoLimit) {
  Tree tree;
  tree.sysfs().cgroup2("a", 10).cgroup2("b", 20).resctrl().write("resctrl/info/MB/num_closids", "2\n");
  Config config = tree.config();
  config.services[0].spec.max_ways = 6;
  config.services[0].spec.max_cores = 2;
  config.services[1].spec.min_cores = 8;
  auto actuator = Actuator::open(config);
  ASSERT_TRUE(actuator) << actuator.error().message;
  const Outcome outcome = actuator->apply(actuator->even_decision());
  EXPECT_TRUE(took_effect(outcome)) << outcome.message;
}

// What a service that has gone left is no room while others are in its group.
class GuestTest : public testing::Test {
 protected:
  GuestTest() {
    tree_.sysfs().cgroup2("a", 10).cgroup2("b", 20).resctrl().write("resctrl/schemata", "    L3:0=fffff\n");
    tree_.write("resctrl/info/L3/num_closids", "2\n");
    tree_.write("resctrl/osml-be/schemata", "    L3:0=fffff\n").write("resctrl/osml-be/tasks", "");
    for (const char* without : {"resctrl/info/MB", "proc/10", "proc/20"}) fs::remove_all(tree_ / without);
    decision_.node = "n";
    decision_.partition.regions = {{{"lc"}, 5, 10}, {{"be"}, 3, 10}};
    decision_.assignments = {{"lc", "0-4", {}, {}, 0x3ff, {}}, {"be", "5-7", {}, {}, 0x3ff, {}}};
  }
  Tree tree_;
  Decision decision_;
};

TEST_F(GuestTest, TheGroupOfAHostThatHasGoneIsTaken) {
  const Config config = tree_.config();
  auto actuator = Actuator::open(config);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(actuator->platform().max_groups, 2U);
  fs::remove_all(tree_ / "cgroup/b");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->platform().max_groups, 1U);
}

TEST_F(GuestTest, AConfigurationWithoutTheHostLeavesItsGroupToTheGuests) {
  Config config = tree_.config();
  {
    auto actuator = Actuator::open(config);
    ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  }
  config.services.pop_back();
  auto actuator = Actuator::open(config);
  ASSERT_TRUE(actuator) << actuator.error().message;
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_TRUE(osml::exists(tree_ / "resctrl/osml-be"));
}

}  // namespace
}  // namespace osml
