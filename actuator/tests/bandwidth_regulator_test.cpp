#include <gtest/gtest.h>

#include "bandwidth/budget.h"
#include "bandwidth/regulator.h"
#include "bandwidth/regulator_knob.h"
#include "node/mechanisms.h"
#include "tree.h"

namespace osml {
namespace {

using testing_support::Tree;

constexpr double gb = 1e9;

// A job that moves `speed` whenever it may: the mean of what it gets, over `seconds`, polled every `poll_s`.
double regulated_gbps(double limit, double speed, double poll_s, double seconds) {
  Budget budget(0.02);
  budget.set_limit(limit * gb);
  double bytes = 5 * gb;
  const double first = bytes;
  bool standing = false;
  double now = 0;
  for (; now < seconds; now += poll_s) {
    if (!standing) bytes += speed * gb * poll_s;
    standing = budget.spent(now + poll_s, static_cast<std::uint64_t>(bytes));
  }
  return (bytes - first) / gb / now;
}

TEST(BudgetTest, KeepsTheMeanHoweverCoarselyTheCountersAreRead) {
  for (const double poll_s : {0.001, 0.004, 0.007, 0.02, 0.05}) {
    const double mean = regulated_gbps(3, 20, poll_s, 20);
    EXPECT_LT(mean, 3.1) << poll_s;
    EXPECT_GT(mean, 2.2) << poll_s;
  }
}

TEST(BudgetTest, LeavesAloneWhoStaysWithinIt) { EXPECT_NEAR(regulated_gbps(3, 2.5, 0.004, 10), 2.5, 0.01); }

TEST(BudgetTest, UnusedBudgetIsNotSavedForABurst) {
  Budget budget(0.02);
  budget.set_limit(gb);
  EXPECT_FALSE(budget.spent(0, 0));
  EXPECT_FALSE(budget.spent(10, 0));
  EXPECT_TRUE(budget.spent(10.004, 30'000'000));  // 20 MB are one period's
}

TEST(BudgetTest, WithoutALimitNobodyStandsStill) {
  Budget budget(0.02);
  EXPECT_FALSE(budget.spent(0, 0));
  EXPECT_FALSE(budget.spent(0.001, static_cast<std::uint64_t>(gb)));
}

TEST(BudgetTest, ACounterThatWasResetIsABeginning) {
  Budget budget(0.02);
  budget.set_limit(gb);
  EXPECT_FALSE(budget.spent(0, 900'000'000));
  EXPECT_FALSE(budget.spent(0.001, 5));
  EXPECT_TRUE(budget.spent(0.002, 30'000'000));
}

TEST(BudgetTest, AGlitchOfACounterStopsAGroupForASecondAtMost) {
  Budget budget(0.02);
  budget.set_limit(gb);
  EXPECT_FALSE(budget.spent(0, 0));
  EXPECT_TRUE(budget.spent(0.004, static_cast<std::uint64_t>(1e15)));
  EXPECT_TRUE(budget.spent(0.9, static_cast<std::uint64_t>(1e15)));
  EXPECT_FALSE(budget.spent(1.1, static_cast<std::uint64_t>(1e15)));
}

class RegulatorTest : public testing::Test {
 protected:
  RegulatorTest() {
    tree_.sysfs().cgroup2("a", 10).cgroup2("b", 20);
    tree_.write("cgroup/a/cgroup.freeze", "0\n").write("cgroup/b/cgroup.freeze", "0\n");
    config_ = tree_.config();
    config_.services[0].spec.kind = "lc";
    config_.services[1].spec.kind = "be";
    config_.bandwidth.regulator = true;
    config_.roots.budgets = tree_ / "state/budgets";
    count(0);
    be_.service = "be";
    lc_.service = "lc";
    be_.mba = 1000;  // 20 MB a period
    lc_.mba = 1;
  }
  void count(std::uint64_t bytes) {
    tree_.write("group/mon_data/mon_L3_00/mbm_total_bytes", std::to_string(bytes) + "\n");
    tree_.write("group/mon_data/mon_L3_01/mbm_total_bytes", "0\n");
  }
  [[nodiscard]] std::string frozen(const std::string& group) const {
    return tree_.text("cgroup/" + group + "/cgroup.freeze");
  }
  [[nodiscard]] Regulator regulator() {
    return Regulator(config_, [this](const std::string&) { return (tree_ / "group").string(); });
  }

  Tree tree_;
  Config config_;
  Assignment be_, lc_;
};

TEST_F(RegulatorTest, BrakesTheJobThatHasSpentItsBudgetUntilTheNextPeriod) {
  Regulator regulator = this->regulator();
  regulator.follow({lc_, be_});
  regulator.poll(0);
  count(10'000'000);
  regulator.poll(0.004);
  EXPECT_EQ(frozen("b"), "0");
  count(21'000'000);
  regulator.poll(0.008);
  EXPECT_EQ(frozen("b"), "1");
  regulator.poll(0.012);
  EXPECT_EQ(frozen("b"), "1");
  regulator.poll(0.021);
  EXPECT_EQ(frozen("b"), "0");
  EXPECT_EQ(frozen("a"), "0");  // an LC service is never braked
}

TEST_F(RegulatorTest, AResetOfOneDomainHidesNoTrafficOfTheOthers) {
  tree_.write("group/mon_data/mon_L3_00/mbm_total_bytes", "0\n");
  tree_.write("group/mon_data/mon_L3_01/mbm_total_bytes", "100000000\n");
  Regulator regulator = this->regulator();
  regulator.follow({lc_, be_});
  regulator.poll(0);
  tree_.write("group/mon_data/mon_L3_00/mbm_total_bytes", "21000000\n");
  tree_.write("group/mon_data/mon_L3_01/mbm_total_bytes", "0\n");
  regulator.poll(0.004);
  EXPECT_EQ(frozen("b"), "1");
}

TEST_F(RegulatorTest, ADomainThatComesOnlineIsLimitedAfterAMinute) {
  Regulator regulator = this->regulator();
  regulator.follow({lc_, be_});
  regulator.poll(0);
  tree_.write("group/mon_data/mon_L3_02/mbm_total_bytes", "0\n");
  regulator.poll(60);
  tree_.write("group/mon_data/mon_L3_02/mbm_total_bytes", "21000000\n");
  regulator.poll(60.004);
  EXPECT_EQ(frozen("b"), "1");
}

TEST_F(RegulatorTest, LetsGoWhenTheBudgetIsTakenAwayAndWhenItEnds) {
  {
    Regulator regulator = this->regulator();
    regulator.follow({be_});
    regulator.poll(0);
    count(90'000'000);
    regulator.poll(0.004);
    EXPECT_EQ(frozen("b"), "1");
    be_.mba.reset();
    regulator.follow({be_});
    EXPECT_EQ(frozen("b"), "0");
    be_.mba = 1000;
    regulator.follow({be_});
    regulator.poll(1);
    count(990'000'000);
    regulator.poll(1.004);
    EXPECT_EQ(frozen("b"), "1");
  }
  EXPECT_EQ(frozen("b"), "0");
}

TEST_F(RegulatorTest, LetsGoOfAJobThatIsNotThereOrSomewhereElse) {
  Regulator regulator = this->regulator();
  const auto brake = [&](double now_s) {
    regulator.poll(now_s);
    count(static_cast<std::uint64_t>(now_s + 1) * 990'000'000);
    regulator.poll(now_s + 0.004);
  };
  regulator.follow({be_});
  brake(0);
  EXPECT_EQ(frozen("b"), "1");
  regulator.follow({lc_});  // no assignment of the job: it has gone
  EXPECT_EQ(frozen("b"), "0");
  Place place{"be", config_.services[1].match, false, true, "", {}, ""};
  regulator.follow({be_}, {place});
  brake(2);
  EXPECT_EQ(frozen("b"), "1");
  place.match.cgroup = "a";  // started anew as another container
  regulator.follow({be_}, {place});
  EXPECT_EQ(frozen("b"), "0");
  brake(4);
  EXPECT_EQ(frozen("a"), "1");
}

TEST_F(RegulatorTest, AJobThatAKilledAgentLeftStandingGoesOn) {
  ASSERT_TRUE(*Brake(config_.roots, "be", config_.services[1].match).engage());
  EXPECT_EQ(frozen("b"), "1");
  Regulator regulator = this->regulator();
  regulator.follow({be_});
  EXPECT_EQ(frozen("b"), "0");
}

TEST_F(RegulatorTest, AJobThatSomebodyElseFrozeStaysFrozen) {
  tree_.write("cgroup/b/cgroup.freeze", "1\n");
  {
    Regulator regulator = this->regulator();
    regulator.follow({be_});
    EXPECT_EQ(frozen("b"), "1");
    regulator.poll(0);
    count(90'000'000);
    regulator.poll(0.004);
  }
  EXPECT_EQ(frozen("b"), "1");
  // The same service in another cgroup is another matter.
  ASSERT_TRUE(*Brake(config_.roots, "be", config_.services[0].match).engage());
  EXPECT_TRUE(Brake(config_.roots, "be", config_.services[1].match).release());
  EXPECT_EQ(frozen("b"), "1");
}

TEST_F(RegulatorTest, AFreezeThatFailsLeavesNoMark) {
  fs::remove(tree_ / "cgroup/b/cgroup.freeze");
  fs::create_symlink("/proc/version", tree_ / "cgroup/b/cgroup.freeze");  // can be read only
  EXPECT_FALSE(Brake(config_.roots, "be", config_.services[1].match).engage());
  EXPECT_FALSE(osml::exists(tree_ / "state/frozen/be"));
}

TEST_F(RegulatorTest, WhoseTrafficCannotBeReadIsNotLimited) {
  Regulator regulator = this->regulator();
  regulator.follow({be_});
  regulator.poll(0);
  count(90'000'000);
  regulator.poll(0.004);
  EXPECT_EQ(frozen("b"), "1");
  tree_.write("group/mon_data/mon_L3_01/mbm_total_bytes", "Unavailable\n");
  regulator.poll(0.008);
  EXPECT_EQ(frozen("b"), "0");
}

TEST_F(RegulatorTest, TheKnobKeepsTheBudgetInAFileAndRestoresNone) {
  resctrl::Info info;
  info.monitor = resctrl::MonitorInfo{4, {"llc_occupancy", "mbm_total_bytes"}};
  RegulatorKnob knob(config_.roots, "be", config_.services[1].match, info);
  ASSERT_TRUE(knob.probe()) << knob.probe().error().message;
  EXPECT_EQ(*knob.read(), "");
  const std::string before = *knob.snapshot();
  ASSERT_TRUE(knob.write("1500"));
  EXPECT_EQ(*knob.read(), "1500");
  EXPECT_FALSE(knob.write("much"));
  ASSERT_TRUE(*Brake(config_.roots, "be", config_.services[1].match).engage());
  ASSERT_TRUE(knob.restore(before));
  EXPECT_EQ(*knob.read(), "");
  EXPECT_EQ(frozen("b"), "0");
}

TEST_F(RegulatorTest, ProbeSaysWhyItIsNotAvailable) {
  const auto why = [&](const resctrl::Info& info) {
    for (const Mechanism& one : probe_mechanisms(config_, info, {})) {
      if (one.name == "mba_regulator") return (one.available ? "yes: " : "no: ") + one.reason;
    }
    return std::string("not listed");
  };
  resctrl::Info info;
  EXPECT_EQ(why(info),
            "no: the software regulator needs counters of memory traffic: resctrl does not monitor on this machine");
  info.monitor = resctrl::MonitorInfo{4, {"llc_occupancy"}};
  EXPECT_NE(why(info).find("has no mbm_*_bytes"), std::string::npos) << why(info);
  info.monitor->events.emplace_back("mbm_local_bytes");
  EXPECT_EQ(why(info), "yes: resctrl counters, cgroup.freeze");
  config_.bandwidth.regulator = false;
  EXPECT_EQ(why(info), "no: the software regulator is switched off");
  info.mb = resctrl::BandwidthInfo{};
  EXPECT_EQ(why(info), "no: not needed: the hardware limits memory bandwidth (mba)");
}

// Through the actuator: a machine that counts but does not throttle gets MB/s, a decision sets budgets, restore ends
// it.
class RegulatedNodeTest : public RegulatorTest {
 protected:
  RegulatedNodeTest() {
    tree_.write("resctrl/schemata", "L3:0=fffff\n").write("resctrl/tasks", "");
    tree_.write("resctrl/info/L3/cbm_mask", "fffff\n").write("resctrl/info/L3/min_cbm_bits", "1\n");
    tree_.write("resctrl/info/L3/num_closids", "16\n").write("resctrl/info/last_cmd_status", "ok\n");
    tree_.write("resctrl/info/L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes\n");
    tree_.write("resctrl/info/L3_MON/num_rmids", "32\n");
    for (const char* group : {"osml-lc", "osml-be"}) {
      const std::string base = std::string("resctrl/") + group;
      tree_.write(base + "/schemata", "L3:0=fffff\n").write(base + "/tasks", "").write(base + "/cpus", "0\n");
      tree_.write(base + "/mode", "shareable\n").write(base + "/mon_data/mon_L3_00/mbm_total_bytes", "0\n");
    }
    for (const char* group : {"a", "b"}) tree_.write(std::string("cgroup/") + group + "/cgroup.procs", "");
    config_.platform.bandwidth_gbps = 24.8;
    decision_.node = "n";
    decision_.partition.regions = {{{"lc"}, 5, 0}, {{"be"}, 3, 0}};
    decision_.assignments = {{"lc", "0-4", {}, {}, {}, 14000}, {"be", "5-7", {}, {}, {}, 10800}};
  }
  Decision decision_;
};

TEST_F(RegulatedNodeTest, ThrottlesInMbpsWhereThereIsNoMba) {
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator) << actuator.error().message;
  ASSERT_TRUE(actuator->platform().mba);
  EXPECT_EQ(actuator->platform().mba->unit, "mbps");
  EXPECT_EQ(actuator->platform().mba->max, 24800U);
  EXPECT_FALSE(actuator->missing().contains("mba"));
  const Outcome outcome = actuator->apply(decision_);
  ASSERT_EQ(outcome.status, OutcomeStatus::Applied) << outcome.message;
  EXPECT_EQ(tree_.text("state/budgets/be"), "10800");
  EXPECT_EQ((*actuator->read())[1].mba, 10800U);
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  decision_.assignments[1].mba = 99000;
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Refused);
}

TEST_F(RegulatedNodeTest, EqualsWithoutABudgetMayShareAGroup) {
  tree_.write("resctrl/info/L3/num_closids", "2\n");
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator) << actuator.error().message;
  decision_.partition.regions = {{{"lc", "be"}, 8, 20}};
  decision_.assignments = {{"lc", {}, {}, {}, 0xff, {}}, {"be", {}, {}, {}, 0xff, {}}};
  const Outcome equals = actuator->apply(decision_);
  EXPECT_NE(equals.status, OutcomeStatus::Refused) << equals.message;
  for (Assignment& assignment : decision_.assignments) assignment.mba = 9000;
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Refused) << "a budget is counted by its own group";
}

TEST_F(RegulatedNodeTest, SwitchedOffItSaysWhatCouldBeDone) {
  config_.bandwidth.regulator = false;
  config_.roots.budgets.clear();
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_FALSE(actuator->platform().mba);
  EXPECT_NE(actuator->missing().at("mba").find("software regulator is switched off"), std::string::npos)
      << actuator->missing().at("mba");
}

// With a curve, decisions are in MB/s and the kernel gets percent.
class CurvedNodeTest : public testing::Test {
 protected:
  CurvedNodeTest() {
    tree_.sysfs().resctrl().cgroup2("a", 10).cgroup2("b", 20);
    config_ = tree_.config();
    for (const char* group : {"osml-lc", "osml-be"}) {
      const std::string base = std::string("resctrl/") + group;
      tree_.write(base + "/schemata", "    MB:0=100\n    L3:0=fffff\n").write(base + "/tasks", "");
    }
    config_.bandwidth.curve = tree_ / "curve.json";
    tree_.write("curve.json", R"({"schema": "osml/mba-curve/v1", "unit": "percent", "points": [
        {"setting": 10, "gbps": 5}, {"setting": 50, "gbps": 21}, {"setting": 100, "gbps": 24}]})");
  }
  Tree tree_;
  Config config_;
};

TEST_F(CurvedNodeTest, MbpsAreTranslatedBothWays) {
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(actuator->platform().mba->unit, "mbps");
  EXPECT_EQ(actuator->platform().mba->min, 5000U);
  EXPECT_EQ((*actuator->read())[0].mba, 24000U);
  Decision decision;
  decision.node = "n";
  decision.assignments = {{"lc", {}, {}, {}, {}, 24000}, {"be", {}, {}, {}, {}, 12000}};
  const Outcome planned = actuator->apply(decision, true);
  EXPECT_NE(planned.message.find("be: mba 100 -> 50"), std::string::npos) << planned.status << planned.message;
}

TEST_F(CurvedNodeTest, ACurveThatIsNoneOrOfAnotherUnitIsRefused) {
  tree_.write("curve.json", "{}");
  auto actuator = Actuator::open(config_);
  ASSERT_FALSE(actuator);
  EXPECT_EQ(actuator.error().kind, ErrorKind::Input);
  tree_.write("curve.json", R"({"schema": "osml/mba-curve/v1", "unit": "mbps", "points": [
      {"setting": 10, "gbps": 5}, {"setting": 100, "gbps": 24}]})");
  actuator = Actuator::open(config_);
  ASSERT_FALSE(actuator);
  EXPECT_NE(actuator.error().message.find("this machine throttles in percent"), std::string::npos)
      << actuator.error().message;
  config_.bandwidth.curve = tree_ / "nothing.json";
  EXPECT_FALSE(Actuator::open(config_));
}

}  // namespace
}  // namespace osml
