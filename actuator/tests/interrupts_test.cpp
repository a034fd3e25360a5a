// Interrupts: where they go, the knob of one, and both through whole decisions.
#include "plan/interrupts.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "apply/journal.h"
#include "apply/transaction.h"
#include "cli/commands.h"
#include "levers/irq.h"
#include "tree.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::Tree;

std::string file_of(unsigned number) { return "proc/irq/" + std::to_string(number) + "/smp_affinity_list"; }

void add_interrupt(const Tree& tree, unsigned number, const std::string& name, const std::string& cpus) {
  tree.write(file_of(number), cpus + "\n");
  if (!name.empty()) fs::create_directory((tree / file_of(number)).parent_path() / name);
}

// A file that can be read and refuses each write with EPERM, as that of an interrupt that the kernel places itself.
class Sealed {
 public:
  Sealed(const fs::path& file, const std::string& text) : fd_(::memfd_create("sealed", MFD_ALLOW_SEALING)) {
    EXPECT_EQ(::write(fd_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
    fs::remove(file);
    fs::create_symlink("/proc/self/fd/" + std::to_string(fd_.get()), file);
  }

 private:
  Fd fd_;
};

const CpuSet all = {0, 1, 2, 3, 4, 5, 6, 7};

TEST(OwnedCpusTest, AreThoseOfOneLatencyCriticalServiceAlone) {
  EXPECT_EQ(owned_alone({{CpuSet{0, 1, 2, 3}, {}}, {CpuSet{4, 5}, {}, true}}), (CpuSet{0, 1, 2, 3}));
  EXPECT_EQ(owned_alone({{CpuSet{0, 1, 2}, {}}, {CpuSet{2, 3}, {}, true}}), (CpuSet{0, 1})) << "2 is shared with a job";
  EXPECT_EQ(owned_alone({{CpuSet{0, 1}, {}}, {CpuSet{1, 2}, {}}}), (CpuSet{0, 2})) << "1 is shared by two services";
  EXPECT_THAT(owned_alone({{CpuSet{0, 1}, {}, true}}), IsEmpty());
  EXPECT_EQ(owned_alone({{CpuSet{0, 1}, {}}, {}}), (CpuSet{0, 1})) << "the other has a quota only";
  EXPECT_THAT(owned_alone({{}, {}}), IsEmpty());
}

TEST(KeptAwayTest, AnInterruptStaysOnItsCpusThatNobodyOwns) {
  EXPECT_EQ(kept_away(all, {0, 1, 2, 3}, all, all), (CpuSet{4, 5, 6, 7}));
  EXPECT_EQ(kept_away({4, 5}, {0, 1}, all, all), std::nullopt);
  EXPECT_EQ(kept_away({1, 5}, {0, 1}, all, all), (CpuSet{5})) << "near its device";
}

TEST(KeptAwayTest, WhereAllItsCpusAreOwnedItGoesToTheUsableOnesThatAreNot) {
  EXPECT_EQ(kept_away({1}, {0, 1}, {0, 1, 2, 3}, all), (CpuSet{2, 3}));
  EXPECT_EQ(kept_away(all, all, all, all), std::nullopt) << "there is nowhere to go";
  EXPECT_EQ(kept_away({1}, {0, 1}, {0, 1}, all), std::nullopt) << "it gets no reserved CPU that it had not";
}

TEST(KeptAwayTest, ReservedCpusAreFreeForWhoHadThemAndOfflineOnesAreNot) {
  EXPECT_EQ(kept_away({0, 1, 7}, {0, 1}, {0, 1, 2, 3}, all), (CpuSet{7}));
  EXPECT_EQ(kept_away({0, 1, 7}, {0, 1}, {0, 1, 2, 3}, {0, 1, 2, 3}), (CpuSet{2, 3}));
  const CpuSet online = {0, 1, 2, 3, 4, 5, 6};
  EXPECT_EQ(kept_away({7}, {4, 5, 6}, online, online), (CpuSet{0, 1, 2, 3})) << "where it was found is offline";
  EXPECT_EQ(kept_away({7}, {}, online, online), online);
  EXPECT_EQ(kept_away({4}, {4}, {4, 5}, {4}), std::nullopt) << "the other one is offline";
}

class InterruptKnobTest : public testing::Test {
 protected:
  InterruptKnobTest() { add_interrupt(tree_, 24, "nvme0q1", "0-7"); }
  InterruptKnob knob() { return {tree_.roots(), "irq/24"}; }

  Tree tree_;
};

TEST_F(InterruptKnobTest, SetsAListAndPutsBackWhatWasFound) {
  InterruptKnob knob = this->knob();
  ASSERT_TRUE(knob.probe());
  EXPECT_EQ(*knob.read(), "0-7");
  const std::string found = *knob.snapshot();
  EXPECT_EQ(found, "0-7 nvme0q1");
  EXPECT_EQ(interrupt_cpus(found), all);
  ASSERT_TRUE(knob.write("4-7"));
  EXPECT_TRUE(knob.same(*knob.read(), "4,5-7"));
  ASSERT_TRUE(knob.reconcile("4-5"));
  EXPECT_EQ(tree_.text(file_of(24)), "4-5");
  ASSERT_TRUE(knob.restore(found));
  ASSERT_TRUE(knob.restore(found));
  EXPECT_EQ(tree_.text(file_of(24)), "0-7");
}

TEST_F(InterruptKnobTest, NeverWritesAnEmptyMaskOrWhatIsNoList) {
  InterruptKnob knob = this->knob();
  for (const char* wrong : {"", " ", "all", "0-7\n0", "3-1"}) EXPECT_FALSE(knob.write(wrong)) << wrong;
  for (const char* wrong : {" nvme0q1", "0-7; nvme0q1", "all"}) EXPECT_FALSE(knob.restore(wrong)) << wrong;
  EXPECT_EQ(tree_.text(file_of(24)), "0-7");
}

TEST_F(InterruptKnobTest, WhatTheKernelPlacesItselfIsNoErrorOfADecision) {
  const Sealed sealed(tree_ / file_of(24), "0-7\n");
  InterruptKnob knob = this->knob();
  const std::string found = *knob.snapshot();
  CrashPoint never;
  const Execution ended = execute({{{"irq/24", Aspect::Cpus, "0-7", "4-7"}, &knob, found}}, {{0, "4-7"}}, never);
  EXPECT_EQ(ended.ending, Ending::Applied) << ended.message;
  EXPECT_EQ(knob.refused()->code, EPERM);
  EXPECT_EQ(*knob.read(), "0-7");
  EXPECT_TRUE(knob.restore(found)) << "it never left";
  EXPECT_FALSE(knob.restore("4-7 nvme0q1")) << "where something differs, that is said";
}

TEST_F(InterruptKnobTest, NoVectorLeftIsNoErrorOfADecision) {
  fs::remove(tree_ / file_of(24));
  fs::create_symlink("/dev/full", tree_ / file_of(24));
  InterruptKnob knob = this->knob();
  EXPECT_TRUE(knob.write("4-7"));
  EXPECT_EQ(knob.refused()->code, ENOSPC);
  EXPECT_TRUE(knob.accepts("0-7", "4-7"));
  fs::remove(tree_ / file_of(24));
  add_interrupt(tree_, 24, "", "0-7");
  EXPECT_TRUE(knob.write("4-7"));
  EXPECT_FALSE(knob.refused());
}

// A file that answers EINVAL, as those of chips that can move no interrupt.
void make_immovable(const fs::path& file) {
  fs::remove(file);
  fs::create_symlink("/proc/self/oom_score_adj", file);
}

TEST_F(InterruptKnobTest, AChipThatCannotMoveItIsNoErrorOfADecision) {
  make_immovable(tree_ / file_of(24));
  InterruptKnob knob = this->knob();
  EXPECT_TRUE(knob.write("4-7"));
  ASSERT_TRUE(knob.refused());
  EXPECT_EQ(knob.refused()->code, EINVAL);
  EXPECT_FALSE(may_move_later(*knob.refused()));
}

TEST_F(InterruptKnobTest, WhereItWasFoundMayBeOfflineForAWhile) {
  make_immovable(tree_ / file_of(24));
  InterruptKnob knob = this->knob();
  const Status back = knob.restore("4-7 nvme0q1");
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().kind, ErrorKind::Busy);
  EXPECT_THAT(back.error().message, HasSubstr("none of its CPUs is online"));
  EXPECT_TRUE(may_move_later(*knob.refused()));
}

TEST_F(InterruptKnobTest, NamesOfHandlersHaveNoStrangeBytes) {
  fs::create_directory((tree_ / file_of(24)).parent_path() / "a\xff\x1b[31m");
  InterruptKnob knob = this->knob();
  const std::string found = *knob.snapshot();
  EXPECT_EQ(found, "0-7 a??[31m/nvme0q1");
  EXPECT_TRUE(is_same_interrupt(found, interrupt_handlers(tree_.roots(), "irq/24")));
  EXPECT_EQ(renamed("4-7 old", {"x", "y"}), "4-7 x/y");
}

TEST_F(InterruptKnobTest, AnInterruptThatHasGoneNeedsNothing) {
  fs::remove_all((tree_ / file_of(24)).parent_path());
  InterruptKnob knob = this->knob();
  EXPECT_TRUE(knob.same(*knob.read(), "4-7"));
  EXPECT_TRUE(knob.write("4-7"));
  EXPECT_TRUE(knob.reconcile("4-7"));
  EXPECT_EQ(*knob.snapshot(), "");
  EXPECT_TRUE(knob.restore(""));
  EXPECT_TRUE(knob.restore("0-7 nvme0q1"));
}

TEST_F(InterruptKnobTest, ANumberThatWentToAnotherDeviceIsLeftAlone) {
  fs::rename((tree_ / file_of(24)).parent_path() / "nvme0q1", (tree_ / file_of(24)).parent_path() / "eth0");
  tree_.write(file_of(24), "2\n");
  ASSERT_TRUE(knob().restore("0-7 nvme0q1"));
  EXPECT_EQ(tree_.text(file_of(24)), "2");
  EXPECT_FALSE(is_same_interrupt("0-7 nvme0q1", {"nvme0q10"}));
  EXPECT_TRUE(is_same_interrupt("0-7 nvme0q1/i801_smbus", {"ahci[0000:00:17.0]", "i801_smbus"})) << "a shared line";
  EXPECT_TRUE(is_same_interrupt("0-7 nvme0q1", {})) << "nobody uses it at the moment";
  ASSERT_TRUE(knob().restore("0-7 eth0"));
  EXPECT_EQ(tree_.text(file_of(24)), "0-7");
}

TEST(InterruptListTest, HasThoseThatSomebodyHandles) {
  const Tree tree;
  EXPECT_FALSE(list_interrupts(tree.roots()));
  add_interrupt(tree, 100, "eth0", "0-7");
  add_interrupt(tree, 9, "acpi", "0-7");
  add_interrupt(tree, 5, "", "0-7");
  add_interrupt(tree, 0, "timer", "0-7");
  ::chmod((tree / file_of(0)).c_str(), 0444);
  tree.write("proc/irq/default_smp_affinity", "ff\n");
  const auto found = list_interrupts(tree.roots());
  ASSERT_EQ(found->size(), 3U);
  EXPECT_EQ((*found)[0].part, "irq/0");
  EXPECT_TRUE((*found)[0].fixed);
  EXPECT_EQ((*found)[1].part, "irq/100");
  EXPECT_EQ((*found)[2].names, std::vector<std::string>{"acpi"});
  EXPECT_FALSE((*found)[2].fixed);
  Roots elsewhere = tree.roots();
  elsewhere.proc = "/nowhere";
  elsewhere.irq = tree / "proc/irq";
  EXPECT_EQ(list_interrupts(elsewhere)->size(), 3U);
}

TEST(InterruptListTest, NamesInAJournalLeadNowhereElse) {
  for (const char* name : {"irq/0", "irq/123456789"}) EXPECT_TRUE(is_interrupt_part(name)) << name;
  for (const char* name : {"irq/", "irq/1/..", "irq/../1", "irq/-1", "irq/1x", "irq/1234567890", "24", "irq"}) {
    EXPECT_FALSE(is_interrupt_part(name)) << name;
  }
}

class InterruptsTest : public testing::Test {
 protected:
  // lc has 0-3, be 4-7. A disk that may interrupt all, a network card on CPU 2, a timer that nobody moves.
  InterruptsTest() {
    tree_.sysfs().cgroup2("a", 10).cgroup2("b", 20);
    add_interrupt(tree_, 0, "timer", "0-7");
    ::chmod((tree_ / file_of(0)).c_str(), 0444);
    add_interrupt(tree_, 24, "nvme0q1", "0-7");
    add_interrupt(tree_, 25, "eth0", "2");
    add_interrupt(tree_, 26, "uart", "5");
    config_ = tree_.config();
    config_.services[1].spec.kind = "be";
    config_.levers.interrupts = true;
    decision_.node = "n";
    decision_.seq = 3;
    divide("0-3", "4-7");
  }
  void divide(const std::string& lc, const std::string& be) {
    const auto count = [](const std::string& cpus) { return static_cast<unsigned>(parse_cpulist(cpus)->size()); };
    decision_.partition.regions = {{{"lc"}, count(lc), 0}, {{"be"}, count(be), 0}};
    decision_.assignments = {{"lc", lc, {}, {}, {}, {}}, {"be", be, {}, {}, {}, {}}};
  }
  // Of the disk, the card, the uart and the timer.
  [[nodiscard]] std::string interrupts() const {
    return tree_.text(file_of(24)) + " " + tree_.text(file_of(25)) + " " + tree_.text(file_of(26)) + " " +
           tree_.text(file_of(0));
  }
  static Mechanism mechanism(const Actuator& actuator) {
    for (const Mechanism& one : actuator.mechanisms()) {
      if (one.name == "irq") return one;
    }
    return {};
  }
  [[nodiscard]] std::size_t originals() const {
    const Journal journal = *load_journal(config_.state_dir / "journal.json");
    return static_cast<std::size_t>(
        std::count_if(journal.originals.begin(), journal.originals.end(),
                      [](const Saved& saved) { return is_interrupt_part(saved.name.service); }));
  }
  // Each interval is more than a minute of node time.
  void make_time_fly() { config_.time_scale = 1e9; }

  Tree tree_;
  Config config_;
  Decision decision_;
};

constexpr const char* as_found = "0-7 2 5 0-7";
constexpr const char* divided = "4-7 4-7 5 0-7";

TEST_F(InterruptsTest, SwitchedOffNothingMovesAndProbeSaysHowToSwitchItOn) {
  config_.levers = {};
  auto actuator = Actuator::open(config_);
  EXPECT_EQ(mechanism(*actuator).reason, "levers.interrupts is off in the agent's configuration");
  EXPECT_EQ(mechanism(*actuator).how_to_enable, "set levers.interrupts: on");
  EXPECT_FALSE(actuator->missing().contains("irq"));
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(interrupts(), as_found);
  EXPECT_EQ(actuator->interrupts().fixed, 0U);
}

TEST_F(InterruptsTest, ProbeSaysWhatCannotBeMoved) {
  const auto actuator = Actuator::open(config_, {.read_only = true});
  EXPECT_TRUE(mechanism(*actuator).available);
  EXPECT_EQ(mechanism(*actuator).reason, "3 interrupts; the kernel lets nobody move irq/0 (timer)");
  EXPECT_EQ(mechanism(*actuator).how_to_enable, "");
}

TEST_F(InterruptsTest, ProbeSaysThatIrqbalanceRunsAndWhatToDo) {
  tree_.write("proc/77/comm", "irqbalance\n");
  const auto actuator = Actuator::open(config_, {.read_only = true});
  EXPECT_TRUE(mechanism(*actuator).available);
  EXPECT_THAT(mechanism(*actuator).reason, HasSubstr("irqbalance runs"));
  EXPECT_THAT(mechanism(*actuator).how_to_enable, HasSubstr("IRQBALANCE_BANNED_CPULIST"));
}

TEST_F(InterruptsTest, WithoutInterruptsThatCanBeMovedItIsMissingAndDecisionsApply) {
  for (const unsigned number : {24U, 25U, 26U}) ::chmod((tree_ / file_of(number)).c_str(), 0444);
  auto actuator = Actuator::open(config_);
  EXPECT_FALSE(mechanism(*actuator).available);
  EXPECT_THAT(actuator->missing().at("irq"), HasSubstr("nobody move irq/0 (timer), irq/24 (nvme0q1)"));
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(actuator->interrupts().fixed, 4U);
  fs::remove_all(tree_ / "proc/irq");
  EXPECT_THAT(mechanism(*Actuator::open(config_, {.read_only = true})).reason, HasSubstr("proc/irq"));
}

TEST_F(InterruptsTest, ADryRunSaysTheStepsAndWritesNothing) {
  auto actuator = Actuator::open(config_);
  EXPECT_EQ(actuator->apply(decision_, true).message,
            "lc: cpus - -> 0-3\nbe: cpus - -> 4-7\nirq/24: cpus 0-7 -> 4-7\nirq/25: cpus 2 -> 4-7");
  EXPECT_EQ(interrupts(), as_found);
  EXPECT_EQ(actuator->interrupts().plan, "2 on CPUs 4-7");
  EXPECT_EQ(actuator->interrupts().kept_away, 0U);
}

TEST_F(InterruptsTest, AppliesOnceIsThenUnchangedAndRestores) {
  auto actuator = Actuator::open(config_);
  const Outcome applied = actuator->apply(decision_);
  ASSERT_EQ(applied.status, OutcomeStatus::Applied) << applied.message;
  EXPECT_EQ(interrupts(), divided);
  EXPECT_EQ(originals(), 2U);
  EXPECT_EQ(actuator->interrupts().kept_away, 2U);
  EXPECT_EQ(actuator->interrupts().fixed, 1U);
  EXPECT_EQ(actuator->interrupts().plan, "2 on CPUs 4-7");
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(interrupts(), divided);
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(interrupts(), as_found);
  EXPECT_EQ(actuator->interrupts().kept_away, 0U);
  EXPECT_EQ(actuator->interrupts().plan, "");
  ASSERT_TRUE(actuator->restore());
}

TEST_F(InterruptsTest, TheyFollowTheServicesAndGoBackWhereNobodyOwnsTheirCpus) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  divide("4-7", "0-3");
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(interrupts(), "0-3 2 0-3 0-7");
  EXPECT_EQ(originals(), 2U) << "the card is as it was found";
  divide("0-1", "2-7");
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(interrupts(), "2-7 2 5 0-7");
  divide("0-7", "0-7");
  decision_.partition.regions = {{{"lc", "be"}, 8, 0}};
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(interrupts(), as_found);
  EXPECT_EQ(originals(), 0U);
}

TEST_F(InterruptsTest, WhereEveryCpuIsOwnedTheyStayAsFound) {
  config_.services[1].spec.kind = "lc";
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(interrupts(), as_found);
  divide("0-3", "4-6");
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(interrupts(), "7 7 7 0-7") << "the one CPU that nobody has";
}

TEST_F(InterruptsTest, ReservedCpusAreForThoseThatHadThem) {
  config_.cpu.cpus = "0-5";
  divide("0-3", "4-5");
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(interrupts(), "4-7 4-5 5 0-7");
}

TEST_F(InterruptsTest, OnlyThoseThatTheOperatorNames) {
  config_.levers.interrupt_names = {"nvme*", "timer"};
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(interrupts(), "4-7 2 5 0-7");
  EXPECT_EQ(actuator->interrupts().fixed, 1U);
  config_.levers.interrupt_names = {"nvme", "et"};
  EXPECT_THAT(mechanism(*Actuator::open(config_, {.read_only = true})).reason,
              HasSubstr("levers.interrupt_names names no interrupt in"));
}

TEST_F(InterruptsTest, WhatAnotherProgramMovesIsSetAgainOnceAMinute) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  tree_.write(file_of(24), "1\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(interrupts(), divided);
  EXPECT_EQ(actuator->interrupts().moved_by_others, 1U);
  tree_.write(file_of(24), "1\n").write(file_of(25), "0\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_THAT(actuator->missing().at("irq.moved_by_others"), HasSubstr("(2, such as irq/24)"));
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged) << "nor does a decision set it each interval";
  EXPECT_EQ(interrupts(), "1 0 5 0-7") << "within the minute";
  EXPECT_EQ(actuator->interrupts().moved_by_others, 1U);
  divide("0-4", "5-7");
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(interrupts(), "5-7 5-7 5 0-7") << "another place is written at once";
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(interrupts(), as_found);
}

TEST_F(InterruptsTest, WhatAnotherProgramMovesToOtherCpusThanThoseOfServicesStaysThere) {
  make_time_fly();
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  tree_.write(file_of(24), "6\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  EXPECT_EQ(interrupts(), "6 4-7 5 0-7");
  EXPECT_EQ(actuator->interrupts().moved_by_others, 0U);
  divide("0-4", "5-7");
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(interrupts(), "5-7 5-7 5 0-7") << "until they have to move";
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(interrupts(), as_found);
}

TEST_F(InterruptsTest, BackAndForthNeedsNoIntervalBetween) {
  auto actuator = Actuator::open(config_);
  const Decision first = decision_;
  ASSERT_EQ(actuator->apply(first).status, OutcomeStatus::Applied);
  divide("0-7", "0-7");
  decision_.partition.regions = {{{"lc", "be"}, 8, 0}};
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(interrupts(), as_found);
  ASSERT_EQ(actuator->apply(first).status, OutcomeStatus::Applied);
  EXPECT_EQ(interrupts(), divided);
}

TEST_F(InterruptsTest, AfterTheMinuteAllAreSetAgain) {
  make_time_fly();
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  for (unsigned times = 1; times <= 3; ++times) {
    tree_.write(file_of(24), "1\n").write(file_of(25), "0\n");
    ASSERT_TRUE(actuator->reconcile());
    EXPECT_EQ(interrupts(), divided);
    EXPECT_EQ(actuator->interrupts().moved_by_others, 2 * times);
    EXPECT_FALSE(actuator->missing().contains("irq.moved_by_others"));
  }
}

TEST_F(InterruptsTest, WhatTheKernelPlacesItselfIsTriedOnceAndCounted) {
  const Sealed sealed(tree_ / file_of(25), "2\n");
  auto actuator = Actuator::open(config_);
  const Outcome applied = actuator->apply(decision_);
  ASSERT_EQ(applied.status, OutcomeStatus::Applied) << applied.message;
  EXPECT_EQ(interrupts(), "4-7 2 5 0-7");
  EXPECT_EQ(actuator->interrupts().kept_away, 1U);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->interrupts().fixed, 2U);
  EXPECT_EQ(actuator->interrupts().moved_by_others, 0U);
  EXPECT_EQ(originals(), 1U) << "nothing is to be put back";
  divide("0-2", "3-7");
  EXPECT_EQ(actuator->apply(decision_, true).message,
            "lc: cpus 0-3 -> 0-2\nbe: cpus 4-7 -> 3-7\nirq/24: cpus 4-7 -> 3-7");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(interrupts(), as_found);
}

TEST_F(InterruptsTest, AChipThatCannotMoveOneHoldsNoDecisionUp) {
  make_immovable(tree_ / file_of(25));  // reads as "0"
  auto actuator = Actuator::open(config_);
  const Outcome applied = actuator->apply(decision_);
  ASSERT_EQ(applied.status, OutcomeStatus::Applied) << applied.message;
  EXPECT_EQ(tree_.text(file_of(24)), "4-7");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->interrupts().fixed, 2U);
  EXPECT_EQ(actuator->interrupts().kept_away, 1U);
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(tree_.text(file_of(24)), "0-7");
}

TEST_F(InterruptsTest, WhereItWasFoundMayGoOffline) {
  add_interrupt(tree_, 27, "disk", "7");
  divide("4-7", "0-3");
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(tree_.text(file_of(27)), "0-3");
  tree_.write("sys/devices/system/cpu/online", "0-6\n");
  make_immovable(tree_ / file_of(27));  // the kernel takes no list of offline CPUs
  divide("4-6", "0-3");
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(actuator->reconcile());
  divide("0-3", "4-6");
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
}

TEST_F(InterruptsTest, ADeviceThatGetsAnotherNameKeepsWhereItWasFound) {
  make_time_fly();
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  fs::rename(tree_ / "proc/irq/25/eth0", tree_ / "proc/irq/25/lan0");
  ASSERT_TRUE(actuator->reconcile());
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(interrupts(), divided);
  EXPECT_EQ(originals(), 2U);
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(interrupts(), as_found);
}

// Between two looks, which are a minute apart.
TEST_F(InterruptsTest, ANumberThatGoesToAnotherDeviceIsNotWritten) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  fs::rename(tree_ / "proc/irq/24/nvme0q1", tree_ / "proc/irq/24/can0");
  tree_.write(file_of(24), "1-3\n");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(tree_.text(file_of(24)), "4-7") << "as that of any device";
  EXPECT_EQ(actuator->interrupts().moved_by_others, 0U);
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(tree_.text(file_of(24)), "1-3");
}

TEST_F(InterruptsTest, WhatNoJournalOnTheDiskKnowsIsNotWritten) {
  make_time_fly();
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  add_interrupt(tree_, 30, "usb", "1");
  const fs::path away = tree_ / "state-away";
  fs::rename(config_.state_dir, away);
  tree_.write("state", "a file where the directory was");
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(actuator->reconcile());
    EXPECT_EQ(tree_.text(file_of(30)), "1");
  }
  fs::remove(config_.state_dir);
  fs::rename(away, config_.state_dir);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(tree_.text(file_of(30)), "4-7");
}

TEST_F(InterruptsTest, ItStaysKnownOverEachLook) {
  make_time_fly();
  const Sealed sealed(tree_ / file_of(25), "2\n");
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  ASSERT_TRUE(actuator->reconcile());
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->interrupts().fixed, 2U);
  EXPECT_THAT(mechanism(*actuator).reason, HasSubstr("nobody move irq/0 (timer), irq/25 (eth0)"));
}

TEST_F(InterruptsTest, DevicesComeAndGo) {
  make_time_fly();
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  fs::remove_all(tree_ / "proc/irq/25");
  add_interrupt(tree_, 30, "usb", "1");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(tree_.text(file_of(30)), "4-7");
  EXPECT_EQ(originals(), 2U) << "the disk and the new one";
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  fs::rename(tree_ / "proc/irq/30/usb", tree_ / "proc/irq/30/can0");  // the number went to another device
  tree_.write(file_of(30), "3\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(tree_.text(file_of(30)), "4-7");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(tree_.text(file_of(30)), "3");
}

TEST_F(InterruptsTest, AServiceThatHasGoneOwnsNothing) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  fs::rename(tree_ / "cgroup/a", tree_ / "gone");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(interrupts(), as_found);
  fs::rename(tree_ / "gone", tree_ / "cgroup/a");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(interrupts(), divided);
}

TEST_F(InterruptsTest, AStepThatFailsLeavesThemAsTheyWere) {
  const Sealed sealed(tree_ / "cgroup/b/cpuset.cpus", "4-5\n");  // it grows after the interrupts have shrunk
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator) << actuator.error().message;
  const Outcome outcome = actuator->apply(decision_);
  EXPECT_EQ(outcome.status, OutcomeStatus::RolledBack) << "that file was never written, so it needs no way back";
  EXPECT_THAT(outcome.message, HasSubstr("be: cpus 4-5 -> 4-7 failed"));
  EXPECT_EQ(interrupts(), as_found) << "all that was written before is undone";
}

TEST_F(InterruptsTest, ARestartKeepsThemAndRestoresWithoutTheConfiguration) {
  ASSERT_EQ(Actuator::open(config_)->apply(decision_).status, OutcomeStatus::Applied);
  {
    auto again = Actuator::open(config_);
    EXPECT_EQ(again->healed(), "");
    EXPECT_EQ(interrupts(), divided);
    EXPECT_EQ(again->apply(decision_).status, OutcomeStatus::Unchanged);
  }
  std::ostringstream said;
  cli::Options options;
  options.state_dir = config_.state_dir;
  options.dry_run = true;
  ASSERT_TRUE(cli::restore(options, false, said));
  EXPECT_THAT(said.str(), HasSubstr("would restore irq/24: cpus"));
  options.dry_run = false;
  ASSERT_TRUE(cli::restore(options, false, said));
  EXPECT_EQ(interrupts(), as_found);
}

// As a crash in the middle leaves it.
TEST_F(InterruptsTest, AnInterruptedTransactionIsUndoneAtTheNextStart) {
  ASSERT_EQ(Actuator::open(config_)->apply(decision_).status, OutcomeStatus::Applied);
  const fs::path file = config_.state_dir / "journal.json";
  Journal journal = *load_journal(file);
  for (const Saved& saved : journal.originals) journal.pending.push_back(saved);
  ASSERT_TRUE(save_journal(file, journal));
  const auto actuator = Actuator::open(config_);
  EXPECT_THAT(actuator->healed(), HasSubstr("undid 4 settings"));
  EXPECT_EQ(interrupts(), as_found);
}

TEST_F(InterruptsTest, SwitchedOffLaterIsRestoredAtTheNextStart) {
  ASSERT_EQ(Actuator::open(config_)->apply(decision_).status, OutcomeStatus::Applied);
  config_.levers = {};
  const auto actuator = Actuator::open(config_);
  EXPECT_EQ(interrupts(), as_found);
  EXPECT_THAT(actuator->healed(), HasSubstr("restored 2 settings"));
}

TEST_F(InterruptsTest, TheJournalKnowsWhereTheyAre) {
  fs::rename(tree_ / "proc/irq", tree_ / "interrupts");
  config_.roots.irq = tree_ / "interrupts";
  ASSERT_EQ(Actuator::open(config_)->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(tree_.text("interrupts/24/smp_affinity_list"), "4-7");
  cli::Options options;
  options.state_dir = config_.state_dir;
  std::ostringstream said;
  ASSERT_TRUE(cli::restore(options, false, said));
  EXPECT_EQ(tree_.text("interrupts/24/smp_affinity_list"), "0-7");
}

}  // namespace
}  // namespace osml
