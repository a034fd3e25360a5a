#include "plan/validate.h"

#include <gtest/gtest.h>

#include <functional>

namespace osml {
namespace {

// A knob that is simply there.
class AnyKnob : public Knob {
 public:
  explicit AnyKnob(Aspect aspect) : aspect_(aspect) {}
  [[nodiscard]] Aspect aspect() const override { return aspect_; }
  [[nodiscard]] std::string_view backend() const override { return "any"; }
  Status probe() override { return done(); }
  Result<std::string> read() override { return now; }
  Status allows(const std::string& /*value*/) override { return present; }
  Status write(const std::string& /*value*/) override { return done(); }
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override { return read == wanted; }
  Result<std::string> snapshot() override { return std::string(); }
  Status restore(const std::string& /*snapshot*/) override { return done(); }

  std::string now;
  Status present = done();

 private:
  Aspect aspect_;
};

struct Node {
  Config config;
  Platform platform;
  std::vector<KnobSet> knobs;
  Decision decision;
  std::vector<Assignment> held;
  std::map<std::string, Wanted> last;

  Node() {
    config.node = decision.node = "n";
    platform.cores = 8;
    platform.cpus = "0-7";
    platform.ways = 20;
    platform.min_way_bits = 2;
    platform.mba = MbaRange{10, 100, 10, "percent"};
    platform.memory_mib = KnobRange{64, 1000, 64};
    platform.disk_iops = KnobRange{10, 200, 10};
    platform.frequency_mhz = KnobRange{800, 3600, 100};
    for (const char* name : {"lc", "be"}) {
      ServiceConfig service;
      service.spec.name = name;
      config.services.push_back(service);
      KnobSet set;
      set.service = name;
      for (const Aspect aspect : aspects) {
        set.knobs[aspect] = std::make_unique<AnyKnob>(aspect);
      }
      set.slice_ms = 100;
      knobs.push_back(std::move(set));
    }
    decision.partition.regions = {{{"lc"}, 4, 10}, {{"be"}, 4, 10}};
    decision.assignments = {{"lc", "0-3", {}, {}, 0x3ff, 100}, {"be", "4-7", {}, {}, 0xffc00, 50}};
  }
  [[nodiscard]] std::string why() const {
    return refusal(decision, config, platform, knobs, {}, held, last).value_or("accepted");
  }
};

TEST(ValidateTest, AcceptsALegalDecision) { EXPECT_EQ(Node().why(), "accepted"); }

struct Case {
  const char* name;
  const char* says;  // what the one sentence must contain
  std::function<void(Node&)> spoil;
};

class RefusedTest : public testing::TestWithParam<Case> {};

TEST_P(RefusedTest, WholeAndWithTheReason) {
  Node node;
  GetParam().spoil(node);
  const std::string why = node.why();
  EXPECT_NE(why.find(GetParam().says), std::string::npos) << why;
  EXPECT_EQ(why.find('\n'), std::string::npos);
}

Assignment& lc(Node& node) { return node.decision.assignments[0]; }
Limits& limits(Node& node) { return node.config.services[0].limits; }
void has_now(Node& node, Aspect aspect, const std::string& value) {
  dynamic_cast<AnyKnob&>(*node.knobs[0].find(aspect)).now = value;
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RefusedTest,
    testing::Values(
        Case{"OtherNode", "is for node 'm'", [](Node& n) { n.decision.node = "m"; }},
        Case{"UnknownService", "'ghost' is not a service of this node; its services are lc, be",
             [](Node& n) { lc(n).service = "ghost"; }},
        Case{"NamedTwice", "has two assignments", [](Node& n) { n.decision.assignments[1].service = "lc"; }},
        Case{"LeftOut", "'be' has no assignment", [](Node& n) { n.decision.assignments.pop_back(); }},
        Case{"CpusOutside", "cpus 6-9 are not all CPUs of this node", [](Node& n) { lc(n).cpus = "6-9"; }},
        Case{"CpusEmpty", "cpus is empty", [](Node& n) { lc(n).cpus = ""; }},
        Case{"CpusNonsense", "expected a CPU id", [](Node& n) { lc(n).cpus = "all"; }},
        Case{"MoreCoresThanExist", "sum up to 9 cores", [](Node& n) { n.decision.partition.regions[0].cores = 5; }},
        Case{"MoreWaysThanExist", "sum up to 21 ways", [](Node& n) { n.decision.partition.regions[0].ways = 11; }},
        Case{"NoCoresInThePartition", "give service 'lc' 0 cores, expected at least 1",
             [](Node& n) { n.decision.partition.regions[0].cores = 0; }},
        Case{"NoWaysInThePartition", "give service 'lc' 0 ways, expected at least 1",
             [](Node& n) { n.decision.partition.regions[0].ways = 0; }},
        Case{"UnknownOwner", "region owner 'ghost'",
             [](Node& n) { n.decision.partition.regions[0].owners = {"ghost"}; }},
        Case{"ZeroWays", "way_mask 0 has no ways", [](Node& n) { lc(n).way_mask = 0; }},
        Case{"TooWide", "wider than the cache", [](Node& n) { lc(n).way_mask = 0x1fffff; }},
        Case{"TooFewBits", "hardware minimum of 2", [](Node& n) { lc(n).way_mask = 1; }},
        Case{"Holes", "is not contiguous", [](Node& n) { lc(n).way_mask = 0x5f; }},
        Case{"TooLittleMemory", "memory_mib 63 is outside 64..1000", [](Node& n) { lc(n).levers.memory_mib = 63; }},
        Case{"TooMuchMemory", "memory_mib 1001 is outside 64..1000", [](Node& n) { lc(n).levers.memory_mib = 1001; }},
        Case{"MemoryBelowTheOperators", "memory_mib 100 is below the limit min_memory_mib 101",
             [](Node& n) { lc(n).levers.memory_mib = 100, limits(n).min_memory_mib = 101; }},
        Case{"MemoryAboveTheOperators", "memory_mib 100 is above the limit max_memory_mib 99",
             [](Node& n) { lc(n).levers.memory_mib = 100, limits(n).max_memory_mib = 99; }},
        Case{"MemoryTwice", "memory_mib: the assignments sum up to 1001, expected at most 1000",
             [](Node& n) { lc(n).levers.memory_mib = 500, n.decision.assignments[1].levers.memory_mib = 501; }},
        Case{"DiskBelowTheOperators", "disk_iops 20 is below the limit min_disk_iops 30",
             [](Node& n) { lc(n).levers.disk_iops = 20, limits(n).min_disk_iops = 30; }},
        Case{"DiskTwice", "disk_iops: the assignments sum up to 201, expected at most 200",
             [](Node& n) { lc(n).levers.disk_iops = 100, n.decision.assignments[1].levers.disk_iops = 101; }},
        Case{"TooSlow", "frequency_mhz 799 is outside 800..3600", [](Node& n) { lc(n).levers.frequency_mhz = 799; }},
        Case{"TooFast", "frequency_mhz 3601 is outside 800..3600", [](Node& n) { lc(n).levers.frequency_mhz = 3601; }},
        Case{"BeforeTheKernel", "realtime_priority 50 is outside 1..49",
             [](Node& n) { lc(n).levers.realtime_priority = 50; }},
        Case{"SliceOfItsOwn", "slice_ms 5 cannot be set for one service; expected 100",
             [](Node& n) {
               lc(n).levers = {{}, {}, 10, 5};
             }},
        Case{"LeverSwitchedOff", "memory_mib 100 cannot be set on this node: levers.memory is off",
             [](Node& n) {
               lc(n).levers.memory_mib = 100;
               n.knobs[0].knobs.erase(Aspect::Memory);
               n.knobs[0].missing[Aspect::Memory] = "levers.memory is off in the agent's configuration";
             }},
        Case{"ThePresentForbidsIt", "service 'lc': it is busy",
             [](Node& n) {
               lc(n).levers.memory_mib = 100;
               dynamic_cast<AnyKnob&>(*n.knobs[0].find(Aspect::Memory)).present =
                   Error{ErrorKind::Input, "it is busy", 0};
             }},
        Case{"QuotaTooSmall", "cpu_quota 0.001 is outside 0.01..8", [](Node& n) { lc(n).cpu_quota = 0.001; }},
        Case{"QuotaTooLarge", "cpu_quota 8.5 is outside", [](Node& n) { lc(n).cpu_quota = 8.5; }},
        Case{"MbaTooSmall", "mba 5 is outside 10..100 percent", [](Node& n) { lc(n).mba = 5; }},
        Case{"MbaTooLarge", "mba 101 is outside", [](Node& n) { lc(n).mba = 101; }},
        Case{"MinCores", "below the limit min_cores 5", [](Node& n) { n.config.services[0].spec.min_cores = 5; }},
        Case{"MaxCores", "above the limit max_cores 3", [](Node& n) { n.config.services[0].spec.max_cores = 3; }},
        Case{"MinWays", "below the limit min_ways 11", [](Node& n) { n.config.services[0].spec.min_ways = 11; }},
        Case{"MaxWays", "above the limit max_ways 9", [](Node& n) { n.config.services[0].spec.max_ways = 9; }},
        Case{"QuotaBelowMinCores", "cpu_quota 1.5 is 1.5 cores, below the limit min_cores 2",
             [](Node& n) {
               n.config.services[0].spec.min_cores = 2;
               lc(n).cpu_quota = 1.5;
             }},
        Case{"MinMba", "mba 100 is below the limit min_mba 101", [](Node& n) { limits(n).min_mba = 101; }},
        Case{"MaxMba", "mba 100 is above the limit max_mba 90", [](Node& n) { limits(n).max_mba = 90; }},
        Case{"MinWeight", "weight 50 is below the limit min_weight 100",
             [](Node& n) {
               lc(n).cpu_weight = 50;
               limits(n).min_weight = 100;
             }},
        Case{"MaxWeight", "weight 500 is above the limit max_weight 100",
             [](Node& n) {
               lc(n).cpu_weight = 500;
               limits(n).max_weight = 100;
             }},
        Case{"CoreStep", "cpus 0-3 is 2 less than now, above the limit max_core_step 1",
             [](Node& n) {
               limits(n).max_core_step = 1;
               n.last["lc"] = {{Aspect::Cpus, "0-5"}};
               has_now(n, Aspect::Cpus, "0-5");
             }},
        Case{"QuotaStep", "cpu_quota 4 is 2.5 more than now, above the limit max_core_step 2",
             [](Node& n) {
               limits(n).max_core_step = 2;
               lc(n).cpu_quota = 4;
               n.last["lc"] = {{Aspect::Cpus, "0-3"}, {Aspect::Quota, "1.5"}};
               has_now(n, Aspect::Cpus, "0-3");
               has_now(n, Aspect::Quota, "1.5");
             }},
        Case{"WayStep", "way_mask 3ff is 8 more than now, above the limit max_way_step 7",
             [](Node& n) {
               limits(n).max_way_step = 7;
               n.last["lc"] = {{Aspect::Cpus, "0-3"}, {Aspect::Ways, "3"}};
               has_now(n, Aspect::Ways, "3");
             }},
        Case{"NoMechanism", "way_mask 3ff cannot be set on this node: no RDT",
             [](Node& n) {
               n.knobs[0].knobs.erase(Aspect::Ways);
               n.knobs[0].missing[Aspect::Ways] = "no RDT";
             }}),
    [](const testing::TestParamInfo<Case>& one) { return one.param.name; });

TEST(ValidateTest, AQuotaMayBeLessThanACoreUnlessTheOperatorSaysOne) {
  Node node;
  lc(node) = {"lc", {}, 0.5, {}, 0x3ff, 100};
  EXPECT_EQ(node.why(), "accepted");
  limits(node).min_cores_given = true;
  EXPECT_NE(node.why().find("cpu_quota 0.5 is 0.5 cores, below the limit min_cores 1"), std::string::npos);
}

TEST(ValidateTest, TheFirstDecisionIsNoStep) {
  Node node;
  limits(node).max_core_step = 1;
  limits(node).max_way_step = 1;
  EXPECT_EQ(node.why(), "accepted");
  has_now(node, Aspect::Cpus, "0-7");  // as cgroup v1 and an affinity read where nobody has set one
  has_now(node, Aspect::Ways, "ffff");
  EXPECT_EQ(node.why(), "accepted");
}

TEST(ValidateTest, WhatADecisionLeavesOutCountsAsAll) {
  Node node;
  limits(node).max_core_step = 1;
  limits(node).max_way_step = 12;
  node.last["lc"] = {{Aspect::Cpus, "0-1"}};
  has_now(node, Aspect::Cpus, "0-1");
  lc(node).cpus.reset();
  EXPECT_EQ(node.why(),
            "service 'lc': cpus, which the decision leaves out, is 6 more than now, above the limit max_core_step 1");
  limits(node).max_core_step = 6;
  EXPECT_EQ(node.why(), "accepted");
  // And then the way back is as far.
  node.last["lc"] = {{Aspect::Quota, "2"}};
  has_now(node, Aspect::Cpus, "");
  lc(node).cpu_quota = 2;
  lc(node).cpus = "0";
  EXPECT_NE(node.why().find("cpus 0 is 7 less than now, above the limit max_core_step 6"), std::string::npos)
      << node.why();
  lc(node).cpus = "0-1";
  EXPECT_EQ(node.why(), "accepted") << "20 ways become 10";
  limits(node).max_way_step = 9;
  EXPECT_NE(node.why().find("way_mask 3ff is 10 less than now"), std::string::npos) << node.why();
  node.last["lc"][Aspect::Ways] = "7fe";  // of a service that was started anew, whose group is not made again yet
  EXPECT_EQ(node.why(), "accepted");
}

TEST(ValidateTest, WaysThatTheMachineNoLongerDividesAreNoStep) {
  Node node;
  limits(node).max_way_step = 1;
  node.last["lc"] = {{Aspect::Ways, "3ff"}};
  node.platform.ways.reset();
  for (Assignment& assignment : node.decision.assignments) assignment.way_mask.reset();
  EXPECT_EQ(node.why(), "accepted");
}

TEST(ValidateTest, StepsOfADryRunBeginAtWhatItSupposes) {
  Node node;
  limits(node).max_core_step = 1;
  limits(node).max_way_step = 1;
  node.last["lc"] = {{Aspect::Cpus, "0-1"}, {Aspect::Ways, "ff"}};
  has_now(node, Aspect::Cpus, "0-1");
  has_now(node, Aspect::Ways, "ff");
  EXPECT_NE(node.why().find("cpus 0-3 is 2 more than now"), std::string::npos) << node.why();
  node.held = {{"lc", "0-2", {}, {}, 0x1ff, {}}};
  EXPECT_EQ(node.why(), "accepted");
  node.held = {{"lc", "0-1", {}, {}, {}, {}}};
  EXPECT_NE(node.why().find("cpus 0-3 is 2 more than now"), std::string::npos) << node.why();
  node.held = {{"lc", "0-1", {}, {}, {}, {}}};
  lc(node).cpus.reset();
  EXPECT_NE(node.why().find("cpus, which the decision leaves out, is 6 more than now"), std::string::npos)
      << node.why();
}

TEST(ValidateTest, SparseMasksAreLegalWhereTheCacheTakesThem) {
  Node node;
  node.platform.sparse_masks = true;
  lc(node).way_mask = 0x5f;
  EXPECT_EQ(node.why(), "accepted");
}

TEST(ValidateTest, SlicesOfQuotaCountAgainstTheLimits) {
  Node node;
  node.config.cpu.quantum = 0.1;
  node.platform.core_quantum = 0.1;
  node.platform.cores = 20;
  lc(node) = {"lc", {}, 0.5, {}, {}, {}};
  node.decision.assignments[1] = {"be", {}, 1.5, {}, {}, {}};
  EXPECT_EQ(node.why(), "accepted");
  node.config.services[0].spec.min_cores = 6;
  EXPECT_NE(node.why().find("is 5 cores, below"), std::string::npos);
}

TEST(ValidateTest, WithAnAutomaticCoreUnitLimitsCountCpus) {
  Node node;
  node.platform.core_quantum = 0.1;
  node.platform.cores = 20;
  lc(node) = {"lc", {}, 0.5, {}, {}, {}};
  node.decision.assignments[1] = {"be", {}, 1.5, {}, {}, {}};
  node.config.services[0].spec.max_cores = 1;
  node.config.services[1].spec.max_cores = 2;
  EXPECT_EQ(node.why(), "accepted");
  lc(node).cpu_quota = 1.1;
  EXPECT_NE(node.why().find("cpu_quota 1.1 is 1.1 cores, above the limit max_cores 1"), std::string::npos);
  lc(node).cpu_quota = 0.5;
  limits(node).min_cores_given = true;
  EXPECT_NE(node.why().find("cpu_quota 0.5 is 0.5 cores, below the limit min_cores 1"), std::string::npos);
  limits(node).min_cores_given = false;
  limits(node).max_core_step = 1;
  node.last["lc"] = {{Aspect::Quota, "1.6"}};
  EXPECT_NE(node.why().find("cpu_quota 0.5 is 1.1 less than now, above the limit max_core_step 1"), std::string::npos)
      << node.why();
  node.last["lc"] = {{Aspect::Quota, "1.5"}};
  EXPECT_EQ(node.why(), "accepted");
}

TEST(ValidateTest, AServiceThatIsNotThereNeedsNoCpuMechanism) {
  Node node;
  node.knobs[0].absent = true;
  node.knobs[0].knobs.erase(Aspect::Cpus);
  EXPECT_EQ(node.why(), "accepted");
}

}  // namespace
}  // namespace osml
