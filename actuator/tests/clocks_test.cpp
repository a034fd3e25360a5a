// The clock: which limit each domain of CPUs gets, the knob of a domain, and both through whole decisions.
#include "plan/clocks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "apply/journal.h"
#include "apply/transaction.h"
#include "levers/cpufreq.h"
#include "plan/plan.h"
#include "pod_fixture.h"
#include "tree.h"

namespace osml {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing_support::Tree;

const std::string base = "sys/devices/system/cpu/cpufreq/";

// As intel_pstate has it, 0.8 to 3.6 GHz.
void add_policy(const Tree& tree, unsigned number, const std::string& cpus) {
  const std::string at = base + "policy" + std::to_string(number) + "/";
  tree.write(at + "related_cpus", cpus + " \n").write(at + "scaling_driver", "intel_pstate\n");
  tree.write(at + "cpuinfo_min_freq", "800000\n").write(at + "cpuinfo_max_freq", "3600000\n");
  tree.write(at + "scaling_min_freq", "800000\n").write(at + "scaling_max_freq", "3600000\n");
  tree.write(at + "base_frequency", "2300000\n");
}

const std::vector<ClockDomain> pair_domains = {{"cpufreq/policy0", {0, 1}}, {"cpufreq/policy2", {2, 3}}};

TEST(ClockLimitsTest, AServiceAloneOnADomainHasItsLimitThere) {
  EXPECT_THAT(clock_limits(pair_domains, {{CpuSet{0, 1}, 1500}, {CpuSet{2, 3}, {}}}),
              ElementsAre(Pair("cpufreq/policy0", 1500)));
}

TEST(ClockLimitsTest, OnASharedDomainTheHighestHolds) {
  EXPECT_THAT(clock_limits(pair_domains, {{CpuSet{0}, 1500}, {CpuSet{1, 2, 3}, 2000}}),
              ElementsAre(Pair("cpufreq/policy0", 2000), Pair("cpufreq/policy2", 2000)));
  EXPECT_THAT(clock_limits(pair_domains, {{CpuSet{0, 1}, 1500}, {CpuSet{1}, {}}}), IsEmpty());
}

TEST(ClockLimitsTest, ACpuWithoutAServiceLetsItsDomainRunFree) {
  EXPECT_THAT(clock_limits(pair_domains, {{CpuSet{0, 2, 3}, 1500}}), ElementsAre(Pair("cpufreq/policy2", 1500)));
  EXPECT_THAT(clock_limits(pair_domains, {}), IsEmpty());
}

TEST(ClockLimitsTest, AServiceWithoutCpusMayRunOnEach) {
  EXPECT_THAT(clock_limits(pair_domains, {{CpuSet{0, 1}, 1500}, {{}, {}}}), IsEmpty());
  EXPECT_THAT(clock_limits(pair_domains, {{CpuSet{0, 1}, 1500}, {{}, 1200}}),
              ElementsAre(Pair("cpufreq/policy0", 1500), Pair("cpufreq/policy2", 1200)));
}

TEST(ClockPlanTest, GoesUpBeforeCpusMoveAndDownAfterIt) {
  const std::vector<Change> changes = {{"a", Aspect::Cpus, "0-3", "0-1"},
                                       {"b", Aspect::Cpus, "4-5", "2-5"},
                                       {"cpufreq/policy0", Aspect::Clock, "3600", "1500"},
                                       {"cpufreq/policy2", Aspect::Clock, "1500", "2000"},
                                       {"cpufreq/policy4", Aspect::Clock, "1500", "", "3600000"}};
  std::string lines;
  for (const Step& step : plan(changes, {})) lines += describe(changes[step.change], step) + "\n";
  EXPECT_EQ(lines,
            "cpufreq/policy2: frequency_mhz 1500 -> 2000\n"
            "cpufreq/policy4: frequency_mhz 1500 -> as found\n"
            "a: cpus 0-3 -> 0-1\n"
            "b: cpus 4-5 -> 2-5\n"
            "cpufreq/policy0: frequency_mhz 3600 -> 1500\n");
}

class ClockKnobTest : public testing::Test {
 protected:
  ClockKnobTest() { add_policy(tree_, 0, "0 1"); }
  ClockKnob knob() { return {tree_.roots(), "cpufreq/policy0"}; }
  void write(const std::string& file, const std::string& text) { tree_.write(base + "policy0/" + file, text + "\n"); }
  std::string limit(std::uint64_t mhz, const std::string& found = "3600000") {
    const auto value = knob().limit(mhz, found);
    return !value ? value.error().message : *value ? **value : "none";
  }

  Tree tree_;
};

TEST_F(ClockKnobTest, SetsKhzAndPutsBackWhatWasFound) {
  ClockKnob knob = this->knob();
  ASSERT_TRUE(knob.probe());
  EXPECT_EQ(*knob.read(), "3600");
  const std::string found = *knob.snapshot();
  ASSERT_TRUE(knob.write("1500"));
  EXPECT_EQ(tree_.text(base + "policy0/scaling_max_freq"), "1500000");
  EXPECT_TRUE(knob.same(*knob.read(), "1500"));
  ASSERT_TRUE(knob.restore(found));
  EXPECT_EQ(tree_.text(base + "policy0/scaling_max_freq"), "3600000");
  for (const char* wrong : {"0", "-1", "fast", ""}) EXPECT_FALSE(knob.write(wrong)) << wrong;
  EXPECT_FALSE(knob.restore("3600000\n; reboot"));
}

TEST_F(ClockKnobTest, ALimitStaysWithinHardwareOperatorAndWhatWasFound) {
  EXPECT_EQ(limit(1500), "1500");
  EXPECT_EQ(limit(500), "800");
  write("scaling_min_freq", "1200000");
  EXPECT_EQ(limit(1000), "1200");
  EXPECT_EQ(limit(3600), "none");
  EXPECT_EQ(limit(3000, "2800000"), "none") << "the operator's cap";
  write("cpuinfo_max_freq", "2300000");  // turbo was switched off
  EXPECT_EQ(limit(3000), "2300");
  write("bios_limit", "2000000");
  EXPECT_EQ(limit(3000), "2000");
  write("scaling_min_freq", "3600000");  // a profile that pins the clock
  EXPECT_EQ(limit(1500), "2000");
  write("scaling_min_freq", "slow");
  EXPECT_THAT(limit(1500), HasSubstr("scaling_min_freq"));
}

TEST_F(ClockKnobTest, TheKernelMayRoundToAFrequencyOfTheDriver) {
  write("scaling_available_frequencies", "2301000 2300000 2000000 1500000 ");
  const ClockKnob knob = this->knob();
  EXPECT_TRUE(knob.same("2000", "2200"));
  EXPECT_FALSE(knob.same("2000", "2300"));
  EXPECT_FALSE(knob.same("1500", "2200"));
  EXPECT_TRUE(knob.same("1500", "1000")) << "nothing is below it";
  EXPECT_FALSE(knob.accepts("2300", "2200"));
}

TEST_F(ClockKnobTest, WhatHoldsTheClockDownIsNoErrorOfTheAgent) {
  const ClockKnob knob = this->knob();
  EXPECT_FALSE(knob.same("1600", "2200"));
  EXPECT_TRUE(knob.accepts("1600", "2200"));
  EXPECT_FALSE(knob.accepts("2300", "2200"));
  EXPECT_FALSE(knob.accepts("fast", "2200"));
}

// A kernel that makes something else of a limit.
class OddKernel : public ClockKnob {
 public:
  OddKernel(const Roots& roots, std::string makes) : ClockKnob(roots, "cpufreq/policy0"), makes_(std::move(makes)) {}
  Status write(const std::string& /*value*/) override { return ClockKnob::write(makes_); }

 private:
  std::string makes_;
};

TEST_F(ClockKnobTest, AStepEndsWhereTheKernelTookIt) {
  write("scaling_available_frequencies", "3600000 2000000 800000");
  const auto set_2200 = [this](const char* kernel_makes) {
    OddKernel knob(tree_.roots(), kernel_makes);
    CrashPoint never;
    return execute({{{"cpufreq/policy0", Aspect::Clock, "3600", "2200"}, &knob, "3600000"}}, {{0, "2200"}}, never);
  };
  EXPECT_EQ(set_2200("2000").ending, Ending::Applied) << "rounded";
  EXPECT_EQ(set_2200("1700").ending, Ending::Applied) << "held down";
  const Execution ignored = set_2200("3600");
  EXPECT_EQ(ignored.ending, Ending::RolledBack);
  EXPECT_EQ(
      ignored.message,
      "cpufreq/policy0: frequency_mhz 3600 -> 2200 failed: the agent wrote '2200', but the kernel reports '3600'");
}

// The last CPU of a domain goes offline while a decision is applied.
class GoingDomain : public ClockKnob {
 public:
  explicit GoingDomain(const Tree& tree)
      : ClockKnob(tree.roots(), "cpufreq/policy0"), directory_(tree / (base + "policy0")) {}
  Status write(const std::string& value) override {
    fs::remove_all(directory_);
    return ClockKnob::write(value);
  }

 private:
  fs::path directory_;
};

TEST_F(ClockKnobTest, ADomainThatGoesInTheMiddleRollsTheOthersBack) {
  add_policy(tree_, 2, "2 3");
  ClockKnob stays(tree_.roots(), "cpufreq/policy2");
  GoingDomain goes(tree_);
  CrashPoint never;
  const Execution ended = execute({{{"cpufreq/policy2", Aspect::Clock, "3600", "2200"}, &stays, "3600000"},
                                   {{"cpufreq/policy0", Aspect::Clock, "3600", "2200"}, &goes, "3600000"}},
                                  {{0, "2200"}, {1, "2200"}}, never);
  EXPECT_EQ(ended.ending, Ending::RolledBack) << ended.message;
  EXPECT_EQ(*stays.read(), "3600");
}

TEST_F(ClockKnobTest, ADomainThatHasGoneNeedsNothing) {
  fs::remove_all(tree_ / (base + "policy0"));
  ClockKnob knob = this->knob();
  EXPECT_EQ(*knob.read(), "offline");
  EXPECT_TRUE(knob.same("offline", "1500"));
  EXPECT_TRUE(knob.reconcile("1500"));
  EXPECT_EQ(knob.restore("3600000").error().kind, ErrorKind::Gone);
  EXPECT_FALSE(knob.snapshot());
}

TEST(ClockDomainsTest, AreThoseWithoutReservedCpus) {
  const Tree tree;
  EXPECT_THAT(find_clock_domains(tree.roots(), {0}, {}).error().message, HasSubstr("usual in virtual machines"));
  add_policy(tree, 10, "10 11");
  add_policy(tree, 2, "2 3");
  add_policy(tree, 4, "4 5");
  add_policy(tree, 6, "6 7");
  tree.write(base + "ondemand/up_threshold", "80\n").write(base + "policy7x/related_cpus", "2\n");
  const auto found = find_clock_domains(tree.roots(), {2, 4, 5, 10, 11}, CpuSet{2, 4, 5, 10, 11});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 2U) << "3 is reserved, 6 and 7 are offline";
  EXPECT_EQ((*found)[0].part, "cpufreq/policy4");
  EXPECT_EQ((*found)[1].cpus, (CpuSet{10, 11}));
  EXPECT_THAT(find_clock_domains(tree.roots(), {2}, CpuSet{2}).error().message, HasSubstr("outside of cpu.cpus"));
}

TEST(ClockDomainsTest, NamesInAJournalLeadNowhereElse) {
  for (const char* name : {"cpufreq/policy0", "cpufreq/policy8191"}) EXPECT_TRUE(is_clock_part(name)) << name;
  for (const char* name :
       {"cpufreq/policy", "cpufreq/policy1/..", "cpufreq/../policy1", "policy1", "cpufreq/policy00000"})
    EXPECT_FALSE(is_clock_part(name)) << name;
}

class ClocksTest : public testing::Test {
 protected:
  // Four domains of two CPUs. lc has 0-3, be 4-7.
  ClocksTest() {
    tree_.sysfs().cgroup2("a", 10).cgroup2("b", 20);
    for (const unsigned cpu : {0U, 2U, 4U, 6U}) {
      add_policy(tree_, cpu, std::to_string(cpu) + " " + std::to_string(cpu + 1));
    }
    config_ = tree_.config();
    config_.levers.frequency = true;
    decision_.node = "n";
    decision_.seq = 3;
    divide("0-3", {}, "4-7", 1500);
  }
  void divide(const std::string& lc, std::optional<std::uint64_t> lc_mhz, const std::string& be,
              std::optional<std::uint64_t> be_mhz) {
    const auto count = [](const std::string& cpus) { return static_cast<unsigned>(parse_cpulist(cpus)->size()); };
    decision_.partition.regions = {{{"lc"}, count(lc), 0}, {{"be"}, count(be), 0}};
    decision_.assignments = {{"lc", lc, {}, {}, {}, {}}, {"be", be, {}, {}, {}, {}}};
    decision_.assignments[0].levers.frequency_mhz = lc_mhz;
    decision_.assignments[1].levers.frequency_mhz = be_mhz;
  }
  // MHz of the four domains.
  [[nodiscard]] std::string clocks() const {
    std::string text;
    for (const char* cpu : {"0", "2", "4", "6"}) {
      const std::string khz = tree_.text(base + "policy" + cpu + "/scaling_max_freq");
      text += (text.empty() ? "" : " ") + khz.substr(0, khz.size() - 3);
    }
    return text;
  }
  void set(unsigned policy, const std::string& file, const std::string& text) {
    tree_.write(base + "policy" + std::to_string(policy) + "/" + file, text + "\n");
  }
  static std::string mechanism(const Actuator& actuator) {
    for (const Mechanism& one : actuator.mechanisms()) {
      if (one.name == "cpufreq") return (one.available ? "yes: " : "no: ") + one.reason + " | " + one.how_to_enable;
    }
    return "not listed";
  }

  Tree tree_;
  Config config_;
  Decision decision_;
};

constexpr const char* as_found = "3600 3600 3600 3600";

TEST_F(ClocksTest, APlatformHasTheRangeOfAllDomains) {
  set(2, "scaling_max_freq", "3800000");
  set(4, "scaling_min_freq", "1000000");
  const auto actuator = Actuator::open(config_, {.read_only = true});
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(actuator->platform().frequency_mhz, (KnobRange{1000, 3800, 100}));
  EXPECT_EQ(actuator->platform().frequency_ghz, 2.3);
  EXPECT_EQ(mechanism(*actuator), "yes: intel_pstate, 4 domains | ");
}

TEST_F(ClocksTest, AStepIsAFrequencyThatEachDriverKnows) {
  set(0, "scaling_available_frequencies", "3600000 2800000 2200000");
  config_.platform.frequency_ghz = 2.8;
  const auto actuator = Actuator::open(config_, {.read_only = true});
  EXPECT_EQ(actuator->platform().frequency_mhz, (KnobRange{800, 3600, 800}));
  EXPECT_EQ(actuator->platform().frequency_ghz, 2.8);
}

TEST_F(ClocksTest, SwitchedOffNothingChangesAndADecisionIsRefused) {
  config_.levers = {};
  auto actuator = Actuator::open(config_);
  EXPECT_FALSE(actuator->platform().frequency_mhz);
  EXPECT_FALSE(actuator->platform().frequency_ghz);
  EXPECT_FALSE(actuator->missing().contains("cpufreq"));
  EXPECT_EQ(mechanism(*actuator),
            "no: levers.frequency is off in the agent's configuration | set levers.frequency: on");
  const Outcome outcome = actuator->apply(decision_);
  EXPECT_EQ(outcome.status, OutcomeStatus::Refused);
  EXPECT_EQ(outcome.message,
            "service 'be': frequency_mhz 1500 cannot be set on this node: levers.frequency is off in the agent's "
            "configuration; set levers.frequency: on");
  EXPECT_EQ(clocks(), as_found);
}

TEST_F(ClocksTest, WithoutADriverItIsMissingAndSaid) {
  fs::remove_all(tree_ / base);
  auto actuator = Actuator::open(config_);
  EXPECT_THAT(actuator->missing().at("cpufreq"), HasSubstr("usual in virtual machines"));
  EXPECT_THAT(actuator->apply(decision_).message, HasSubstr("frequency_mhz 1500 cannot be set on this node: there is"));
  divide("0-3", {}, "4-7", {});
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
}

TEST_F(ClocksTest, AProfileThatPinsTheClockLeavesNoRoom) {
  for (const unsigned cpu : {0U, 2U, 4U, 6U}) set(cpu, "scaling_min_freq", "3600000");
  const auto actuator = Actuator::open(config_, {.read_only = true});
  EXPECT_FALSE(actuator->platform().frequency_mhz);
  EXPECT_THAT(mechanism(*actuator), HasSubstr("leave no room: 3600 to 3600 MHz"));
}

TEST_F(ClocksTest, ADecisionOutsideTheRangeIsRefused) {
  divide("0-3", {}, "4-7", 700);
  auto actuator = Actuator::open(config_);
  EXPECT_EQ(actuator->apply(decision_).message, "service 'be': frequency_mhz 700 is outside 800..3600");
}

TEST_F(ClocksTest, ADryRunSaysTheStepsAndWritesNothing) {
  auto actuator = Actuator::open(config_);
  EXPECT_EQ(actuator->apply(decision_, true).message,
            "lc: cpus - -> 0-3\nbe: cpus - -> 4-7\n"
            "cpufreq/policy4: frequency_mhz 3600 -> 1500\ncpufreq/policy6: frequency_mhz 3600 -> 1500");
  EXPECT_EQ(clocks(), as_found);
}

TEST_F(ClocksTest, AppliesOnceIsThenUnchangedAndRestores) {
  auto actuator = Actuator::open(config_);
  const Outcome applied = actuator->apply(decision_);
  ASSERT_EQ(applied.status, OutcomeStatus::Applied) << applied.message;
  EXPECT_EQ(clocks(), "3600 3600 1500 1500");
  const auto assignments = *actuator->read();
  EXPECT_FALSE(assignments[0].levers.frequency_mhz);
  EXPECT_EQ(assignments[1].levers.frequency_mhz, 1500U);
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(clocks(), "3600 3600 1500 1500");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(clocks(), as_found);
  ASSERT_TRUE(actuator->restore());
}

TEST_F(ClocksTest, TheLimitFollowsTheServiceToOtherCpus) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  divide("4-7", {}, "0-3", 1200);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(clocks(), "1200 1200 3600 3600");
  divide("0-4", {}, "5-7", 1200);  // 4 and 5 share a clock
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(clocks(), "3600 3600 3600 1200");
  EXPECT_FALSE((*actuator->read())[1].levers.frequency_mhz) << "one of its CPUs is not limited";
  divide("0-4", 2000, "5-7", 1200);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(clocks(), "2000 2000 2000 1200");
  EXPECT_EQ((*actuator->read())[1].levers.frequency_mhz, 2000U);
  divide("0-4", {}, "5-7", {});
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(clocks(), as_found);
}

TEST_F(ClocksTest, AnOperatorsCapStays) {
  set(4, "scaling_max_freq", "1300000");
  set(6, "scaling_max_freq", "2000000");
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(clocks(), "3600 3600 1300 1500");
  divide("0-3", {}, "4-7", 2500);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(clocks(), "3600 3600 1300 2000");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(clocks(), "3600 3600 1300 2000");
}

TEST_F(ClocksTest, ReservedCpusAreLeftAlone) {
  config_.cpu.cpus = "0-6";
  divide("0-3", {}, "4-6", 1500);
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(clocks(), "3600 3600 1500 3600");
}

TEST_F(ClocksTest, WhatAnotherProgramWroteIsSetAgain) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  set(4, "scaling_max_freq", "3600000");
  set(6, "scaling_max_freq", "900000");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(clocks(), "3600 3600 1500 1500");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(clocks(), as_found);
}

// Somebody else writes all the time, as firmware and heat have the last word.
TEST_F(ClocksTest, AClockThatIsHeldDownIsSaid) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  std::atomic<bool> over = false;
  std::thread heat([&] {
    const Fd file(::open((tree_ / (base + "policy6/scaling_max_freq")).c_str(), O_WRONLY | O_CLOEXEC));
    while (!over) (void)::pwrite(file.get(), "1000000\n", 8, 0);
  });
  constexpr int many = 100000;
  for (int turn = 0; turn < many && !actuator->missing().contains("cpufreq.held_down"); ++turn) {
    (void)actuator->reconcile();
  }
  over = true;
  heat.join();
  EXPECT_THAT(actuator->missing().at("cpufreq.held_down"),
              HasSubstr("1 of 4 domains, such as cpufreq/policy6 with 1000 MHz instead of 1500"));
}

TEST_F(ClocksTest, AClockThatIsHeldDownIsNoChange) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  const auto before = *actuator->read();
  set(4, "scaling_max_freq", "1200000");
  EXPECT_EQ(*actuator->read(), before);
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  divide("0-3", {}, "4-7", 2000);
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied) << "another limit is written";
  EXPECT_EQ(clocks(), "3600 3600 2000 2000");
}

// acpi-cpufreq: firmware says what it leaves, and the kernel keeps to it.
TEST_F(ClocksTest, AClockThatFirmwareSaysItHoldsDownIsNoChange) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  const auto before = *actuator->read();
  for (const unsigned policy : {4U, 6U}) {
    set(policy, "bios_limit", "1200000");
    set(policy, "scaling_max_freq", "1200000");
  }
  EXPECT_EQ(*actuator->read(), before);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(*actuator->read(), before);
  for (const unsigned policy : {4U, 6U}) set(policy, "bios_limit", "3600000");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(clocks(), "3600 3600 1500 1500") << "as decided, once it can be";
  EXPECT_EQ(*actuator->read(), before);
}

TEST_F(ClocksTest, APodThatTheKubeletHasNotToldYetKeepsItsClock) {
  ASSERT_EQ(Actuator::open(config_)->apply(decision_).status, OutcomeStatus::Applied);
  const fs::path journal_file = config_.state_dir / "journal.json";
  Journal journal = *load_journal(journal_file);
  const auto becomes_pod = [](std::string& service, Match& match) {
    if (service != "be") return;
    service = "shop.batch";
    match.found_by = "pod shop/batch, container app";
  };
  for (Applied& applied : journal.applied) becomes_pod(applied.service, applied.match);
  for (Saved& saved : journal.originals) becomes_pod(saved.name.service, saved.name.match);
  ASSERT_TRUE(save_journal(journal_file, journal));
  config_.services.pop_back();
  config_.kubelet.discover.namespaces = {"shop"};
  testing_support::FakeKubelet kubelet;
  kubelet.away = true;
  auto actuator = Actuator::open(config_, {.pods = &kubelet});
  ASSERT_TRUE(actuator) << actuator.error().message;
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(clocks(), "3600 3600 1500 1500");
}

TEST_F(ClocksTest, ADomainThatComesBackGetsItsLimitAgain) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  tree_.write("sys/devices/system/cpu/online", "0-5\n");
  fs::rename(tree_ / (base + "policy6"), tree_ / "away");
  ASSERT_TRUE(actuator->reconcile());
  divide("0-3", {}, "4-5", 1200);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  tree_.write("sys/devices/system/cpu/online", "0-7\n");
  fs::rename(tree_ / "away", tree_ / (base + "policy6"));
  set(6, "scaling_max_freq", "3600000");
  divide("0-3", {}, "4-7", 1200);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(clocks(), "3600 3600 1200 1200");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(clocks(), as_found);
}

// As where CPUs went offline during a transaction and stay so: no file of theirs can be written.
TEST_F(ClocksTest, ADomainThatCannotBeUndoneBlocksNoDecisionAndIsRestoredLater) {
  ASSERT_EQ(Actuator::open(config_)->apply(decision_).status, OutcomeStatus::Applied);
  const fs::path journal_file = config_.state_dir / "journal.json";
  Journal journal = *load_journal(journal_file);
  for (const Saved& saved : journal.originals) {
    if (saved.name.service == "cpufreq/policy6") journal.pending.push_back(saved);
  }
  ASSERT_EQ(journal.pending.size(), 1U);
  ASSERT_TRUE(save_journal(journal_file, journal));
  const fs::path file = tree_ / (base + "policy6/scaling_max_freq");
  fs::rename(file, tree_ / "away");
  fs::create_directory(file);
  tree_.write("sys/devices/system/cpu/online", "0-5\n");
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_THAT(actuator->healed(), HasSubstr("could not restore cpufreq/policy6: frequency_mhz"));
  divide("0-3", {}, "4-5", 1200);
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  const Status left = actuator->restore();
  ASSERT_FALSE(left);
  EXPECT_THAT(left.error().message, HasSubstr("could not restore cpufreq/policy6: frequency_mhz"));
  fs::remove(file);
  fs::rename(tree_ / "away", file);
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(clocks(), as_found);
}

TEST_F(ClocksTest, AServiceThatHasGoneLeavesItsCpusAsFound) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  fs::rename(tree_ / "cgroup/b", tree_ / "gone");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(clocks(), as_found);
  fs::rename(tree_ / "gone", tree_ / "cgroup/b");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(clocks(), "3600 3600 1500 1500");
}

TEST_F(ClocksTest, ARestartKeepsTheLimitsAndKnowsWhatWasFound) {
  {
    auto actuator = Actuator::open(config_);
    ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  }
  for (const bool looking : {true, false}) {
    auto actuator = Actuator::open(config_, {.read_only = looking});
    ASSERT_TRUE(actuator) << actuator.error().message;
    EXPECT_EQ(clocks(), "3600 3600 1500 1500");
    EXPECT_EQ(actuator->platform().frequency_mhz, (KnobRange{800, 3600, 100}));
    EXPECT_EQ((*actuator->read())[1].levers.frequency_mhz, 1500U);
    EXPECT_EQ(actuator->healed(), "");
  }
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(clocks(), as_found);
}

TEST_F(ClocksTest, SwitchedOffLaterIsRestoredAtTheNextStart) {
  {
    auto actuator = Actuator::open(config_);
    ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  }
  config_.levers = {};
  const auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(clocks(), as_found);
  EXPECT_THAT(actuator->healed(), HasSubstr("restored 2 settings"));
}

}  // namespace
}  // namespace osml
