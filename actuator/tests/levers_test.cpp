// Memory, disk and real-time priority: knob by knob, and through a whole decision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "levers/io_max.h"
#include "levers/memory_high.h"
#include "levers/priority.h"
#include "tree.h"

namespace osml {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::Tree;

constexpr const char* found_io = "8:0 rbps=max wbps=1000 riops=max wiops=max\n";

// A service with a working set of 100 MiB and 50 MiB of cache that nobody uses, on a machine with one disk.
void add_levers(Tree& tree, const std::string& group) {
  const std::string base = "cgroup/" + group;
  tree.write(base + "/memory.high", "max\n").write(base + "/memory.current", "157286400\n");
  tree.write(base + "/memory.stat", "anon 104857600\nfile 52428800\ninactive_file 52428800\nactive_file 0\n");
  tree.write(base + "/io.max", found_io);
}

void add_disk(Tree& tree, const std::string& name, const std::string& device, bool removable) {
  tree.write("sys/block/" + name + "/dev", device + "\n").write("sys/block/" + name + "/device/vendor", "x\n");
  tree.write("sys/block/" + name + "/removable", removable ? "1\n" : "0\n");
}

Match at(const std::string& path) {
  Match match;
  match.cgroup = path;
  return match;
}

TEST(MemoryHighTest, SetsBytesAndPutsBackTheTextThatWasFound) {
  Tree tree;
  tree.cgroup2("a", 10);
  add_levers(tree, "a");
  MemoryHigh memory(tree.roots(), at("a"));
  ASSERT_TRUE(memory.probe());
  EXPECT_EQ(*memory.read(), "");
  const std::string found = *memory.snapshot();
  ASSERT_TRUE(memory.write("200"));
  EXPECT_EQ(tree.text("cgroup/a/memory.high"), "209715200");
  EXPECT_TRUE(memory.same(*memory.read(), "200"));
  ASSERT_TRUE(memory.restore(found));
  EXPECT_EQ(tree.text("cgroup/a/memory.high"), "max");
  EXPECT_FALSE(memory.write("0"));
  EXPECT_FALSE(memory.write("max"));
}

TEST(MemoryHighTest, NeverBelowTheWorkingSetAndAnEighth) {
  Tree tree;
  tree.cgroup2("a", 10);
  add_levers(tree, "a");
  MemoryHigh memory(tree.roots(), at("a"));
  EXPECT_TRUE(memory.allows("113"));
  const Status refused = memory.allows("112");
  ASSERT_FALSE(refused);
  EXPECT_THAT(
      refused.error().message,
      HasSubstr("memory_mib 112 is below 113 MiB, an eighth more than the 100 MiB that the service works with"));
  ASSERT_TRUE(memory.write("105"));  // in force already, whoever set it
  EXPECT_TRUE(memory.allows("105"));
  EXPECT_TRUE(memory.allows("110"));
  EXPECT_FALSE(memory.allows("104"));
}

TEST(MemoryHighTest, RoundNumbersAreReadAsTheyWereWritten) {
  Tree tree;
  tree.cgroup2("a", 10);
  add_levers(tree, "a");
  MemoryHigh memory(tree.roots(), at("a"));
  for (const char* mib : {"1000", "100000", "1000000"}) {
    ASSERT_TRUE(memory.write(mib));
    EXPECT_EQ(*memory.read(), mib);
  }
}

TEST(MemoryHighTest, WithoutTheControllerItSaysHowToEnableIt) {
  Tree tree;
  tree.cgroup2("a", 10).cgroup2("system.slice/web.service", 20);
  EXPECT_THAT(MemoryHigh(tree.roots(), at("a")).probe().error().message, HasSubstr("; run: echo +memory > "));
  EXPECT_THAT(MemoryHigh(tree.roots(), at("system.slice/web.service")).probe().error().message,
              HasSubstr("; run: systemctl set-property web.service MemoryAccounting=yes"));
}

TEST(IoMaxTest, LimitsReadsOfDisksThatAreHardware) {
  Tree tree;
  tree.cgroup2("a", 10);
  add_levers(tree, "a");
  tree.write("sys/block/loop0/dev", "7:0\n");
  add_disk(tree, "sr0", "11:0", true);
  EXPECT_THAT(IoMax(tree.roots(), at("a")).probe().error().message, HasSubstr("set levers.disks"));
  add_disk(tree, "sda", "8:0", false);
  EXPECT_EQ(*limited_disks(tree.roots()), std::vector<std::string>{"8:0"});
  IoMax disk(tree.roots(), at("a"));
  ASSERT_TRUE(disk.probe());
  EXPECT_EQ(*disk.read(), "");
  EXPECT_EQ(*disk.snapshot(), "8:0 max");
  ASSERT_TRUE(disk.write("300"));
  EXPECT_EQ(tree.text("cgroup/a/io.max"), "8:0 riops=300");  // the one key; the kernel keeps the others
  EXPECT_EQ(*disk.read(), "300");
  ASSERT_TRUE(disk.restore("8:0 max"));
  EXPECT_EQ(*disk.read(), "");
  EXPECT_FALSE(disk.write("0"));
}

TEST(IoMaxTest, DisksThatDifferAreNotOneValue) {
  Tree tree;
  tree.cgroup2("a", 10);
  add_disk(tree, "sda", "8:0", false);
  add_disk(tree, "sdb", "8:16", false);
  tree.write("cgroup/a/io.max",
             "8:0 rbps=max wbps=max riops=100 wiops=max\n8:32 rbps=max wbps=max riops=7 wiops=max\n");
  IoMax disk(tree.roots(), at("a"));
  EXPECT_FALSE(disk.same(*disk.read(), "100"));
  EXPECT_EQ(*disk.snapshot(), "8:0 100\n8:16 max");  // 8:32 is not ours
}

TEST(IoMaxTest, ADiskThatTheOperatorNamesMustExist) {
  Tree tree;
  tree.cgroup2("a", 10);
  add_levers(tree, "a");
  Roots roots = tree.roots();
  roots.disks = {"sdz"};
  EXPECT_THAT(IoMax(roots, at("a")).probe().error().message, HasSubstr("levers.disks: there is no disk 'sdz'"));
}

// Threads of this process that wait until the end.
class Threads {
 public:
  explicit Threads(std::size_t count) {
    for (std::size_t index = 0; index < count; ++index) add();
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  pid_t add() {
    const std::size_t before = tids_.size();
    threads_.emplace_back([this] {
      std::unique_lock lock(mutex_);
      tids_.push_back(static_cast<pid_t>(::syscall(SYS_gettid)));
      changed_.notify_all();
      changed_.wait(lock, [this] { return over_; });
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tids_.size() > before; });
    return tids_.back();
  }
  [[nodiscard]] const std::vector<pid_t>& tids() const { return tids_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::vector<pid_t> tids_;
  std::vector<std::thread> threads_;
};

class PriorityTest : public testing::Test {
 protected:
  // A threaded group lists threads, so that only some of this process are the service.
  PriorityTest() : threads_(2) {
    tree_.write("cgroup/cgroup.controllers", "cpu\n").write("cgroup/rt/cgroup.procs", "");
    roots_ = tree_.roots();
    roots_.proc = "/proc";
    list();
  }
  void SetUp() override {
    const Status usable = knob().probe();
    if (!usable) GTEST_SKIP() << usable.error().message;
  }
  void list() {
    std::string text;
    for (const pid_t tid : threads_.tids()) text += std::to_string(tid) + "\n";
    tree_.write("cgroup/rt/cgroup.threads", text);
  }
  PriorityKnob knob() { return {roots_, at("rt")}; }
  static int policy(pid_t tid) { return ::sched_getscheduler(tid); }
  static int priority(pid_t tid) {
    sched_param param{};
    EXPECT_EQ(::sched_getparam(tid, &param), 0);
    return param.sched_priority;
  }

  Tree tree_;
  Roots roots_;
  Threads threads_;
};

TEST_F(PriorityTest, EveryThreadGetsItAndGetsBackWhatItHad) {
  const pid_t first = threads_.tids()[0];
  const pid_t second = threads_.tids()[1];
  sched_param param{};
  ASSERT_EQ(::sched_setscheduler(first, SCHED_BATCH, &param), 0);
  ASSERT_EQ(::setpriority(PRIO_PROCESS, static_cast<id_t>(first), 7), 0);
  param.sched_priority = 3;
  ASSERT_EQ(::sched_setscheduler(second, SCHED_FIFO | SCHED_RESET_ON_FORK, &param), 0);
  PriorityKnob knob = this->knob();
  EXPECT_EQ(*knob.read(), "");
  const std::string found = *knob.snapshot();
  ASSERT_TRUE(knob.write("10"));
  EXPECT_EQ(*knob.read(), "10");
  EXPECT_EQ(policy(first), SCHED_RR);
  EXPECT_EQ(policy(second), SCHED_RR | SCHED_RESET_ON_FORK);
  const pid_t born = threads_.add();
  list();
  EXPECT_EQ(*knob.read(), "-,10");
  ASSERT_TRUE(knob.reconcile("10"));
  EXPECT_EQ(*knob.read(), "10");
  ASSERT_EQ(::setpriority(PRIO_PROCESS, static_cast<id_t>(first), 0), 0);
  ASSERT_TRUE(knob.restore(found));
  EXPECT_EQ(policy(first), SCHED_BATCH);
  EXPECT_EQ(::getpriority(PRIO_PROCESS, static_cast<id_t>(first)), 7);
  EXPECT_EQ(policy(second), SCHED_FIFO | SCHED_RESET_ON_FORK);
  EXPECT_EQ(priority(second), 3);
  EXPECT_EQ(policy(born), SCHED_OTHER);
  ASSERT_TRUE(knob.restore(found));
}

TEST_F(PriorityTest, ASnapshotOfAnEarlierThreadWithTheSameIdIsNotRestored) {
  PriorityKnob knob = this->knob();
  const pid_t tid = threads_.tids()[0];
  ASSERT_TRUE(knob.write("10"));
  ASSERT_TRUE(knob.restore(std::to_string(tid) + " 1 " + std::to_string(SCHED_FIFO) + " 5 0\n"));
  EXPECT_EQ(policy(tid), SCHED_OTHER);
}

TEST_F(PriorityTest, AServiceWithoutThreadsNeedsNothingNow) {
  tree_.write("cgroup/rt/cgroup.threads", "");
  PriorityKnob knob = this->knob();
  ASSERT_TRUE(knob.write("10"));
  EXPECT_TRUE(knob.same(*knob.read(), "10"));
  EXPECT_FALSE(knob.write("50"));
  EXPECT_FALSE(knob.write("0"));
}

TEST(PriorityProbeTest, OfASimulatedNodeThereAreNoThreads) {
  Tree tree;
  EXPECT_THAT(PriorityKnob(tree.roots(), at("a")).probe().error().message,
              HasSubstr("is not the /proc of this kernel"));
}

class LeversTest : public testing::Test {
 protected:
  LeversTest() {
    tree_.sysfs().cgroup2("a", 10).cgroup2("b", 20).write("proc/meminfo", "MemTotal:       2048000 kB\n");
    add_levers(tree_, "a");
    add_levers(tree_, "b");
    add_disk(tree_, "sda", "8:0", false);
    config_ = tree_.config();
    config_.levers.memory = config_.levers.disk = true;
    config_.levers.disk_iops = 1000;
    decision_.node = "n";
    decision_.seq = 3;
    decision_.partition.regions = {{{"lc"}, 5, 0}, {{"be"}, 3, 0}};
    decision_.assignments = {{"lc", "0-4", {}, {}, {}, {}, {600, 300, {}, {}}},
                             {"be", "5-7", {}, {}, {}, {}, {200, 100, {}, {}}}};
  }
  [[nodiscard]] std::string high(const std::string& group) const {
    return tree_.text("cgroup/" + group + "/memory.high");
  }
  [[nodiscard]] std::string io(const std::string& group) const { return tree_.text("cgroup/" + group + "/io.max"); }
  void expect_as_found() {
    for (const char* group : {"a", "b"}) {
      EXPECT_EQ(high(group), "max");
      EXPECT_EQ(io(group).find("riops=") == io(group).find("riops=max"), true) << io(group);
    }
  }
  std::string mechanism(const Actuator& actuator, const std::string& name) {
    for (const Mechanism& one : actuator.mechanisms()) {
      if (one.name == name) return (one.available ? "yes: " : "no: ") + one.reason + " | " + one.how_to_enable;
    }
    return "not listed";
  }

  Tree tree_;
  Config config_;
  Decision decision_;
};

TEST_F(LeversTest, APlatformHasThemWhereTheyAreSwitchedOnAndThere) {
  const auto actuator = Actuator::open(config_, {.read_only = true});
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(actuator->platform().memory_mib, (KnobRange{90, 1800, 90}));
  EXPECT_EQ(actuator->platform().disk_iops, (KnobRange{50, 1000, 50}));
  EXPECT_FALSE(actuator->platform().realtime);
  EXPECT_EQ(mechanism(*actuator, "memory.high"), "yes: cgroup2 | ");
  EXPECT_EQ(mechanism(*actuator, "io.max"), "yes: cgroup2 | ");
  EXPECT_EQ(mechanism(*actuator, "sched_policy"),
            "no: levers.realtime is off in the agent's configuration; " + tree_.roots().proc.string() +
                " is not the /proc of this kernel: the agent cannot schedule its tasks | set levers.realtime: on");
  EXPECT_EQ(mechanism(*actuator, "cpu.idle"),
            "no: levers.idle is off in the agent's configuration | set levers.idle: on");
  EXPECT_THAT(mechanism(*actuator, "network"),
              AllOf(HasSubstr("no: the agent never sets "), HasSubstr(" | by hand: ")));
  EXPECT_EQ(mechanism(*actuator, "cpu.weight"), mechanism(*actuator, "cpu_weight"));
  EXPECT_EQ(mechanism(*actuator, "l3"), mechanism(*actuator, "llc_ways"));
  EXPECT_FALSE(actuator->missing().contains("network"));  // nobody misses what is never set
}

// cpu.weight and cpu.idle as the kernel has them: no weight while a group is idle, and 100 after it.
class IdleTest : public LeversTest {
 protected:
  IdleTest() {
    config_.levers = {};
    config_.levers.idle = true;
    config_.services[1].spec.kind = "be";
    tree_.write("cgroup/b/cpu.idle", "0\n").write("cgroup/b/cpu.weight", "70\n").write("cgroup/a/cpu.idle", "0\n");
  }
  static Decision division(std::optional<unsigned> lc, std::optional<unsigned> be) {
    Decision made;
    made.node = "n";
    made.partition.regions = {{{"lc"}, 4, 0}, {{"be"}, 4, 0}};
    made.assignments = {{"lc", "0-3", {}, lc, {}, {}}, {"be", "4-7", {}, be, {}, {}}};
    return made;
  }
  [[nodiscard]] std::string file(const std::string& name) const { return tree_.text("cgroup/" + name); }
};

TEST_F(IdleTest, AJobIsIdleWhateverWeightIsDecidedAndGetsBackWhatWasFound) {
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(mechanism(*actuator, "cpu.idle"), "yes: cgroup2 | ");
  EXPECT_THAT(actuator->apply(division(200, 50), true).message, HasSubstr("be: cpu_weight 70 -> idle"));
  EXPECT_EQ(file("b/cpu.idle"), "0") << "a dry run";
  ASSERT_EQ(actuator->apply(division(200, 50)).status, OutcomeStatus::Applied);
  EXPECT_EQ(file("b/cpu.idle"), "1");
  EXPECT_EQ(file("b/cpu.weight"), "70") << "the kernel refuses it now";
  EXPECT_EQ(file("a/cpu.weight"), "200");
  EXPECT_EQ(file("a/cpu.idle"), "0") << "it is no job";
  const auto assignments = actuator->read();
  EXPECT_EQ((*assignments)[0].cpu_weight, 200U);
  EXPECT_FALSE((*assignments)[1].cpu_weight) << "no weight is in force";
  EXPECT_EQ(actuator->apply(division(200, 60)).status, OutcomeStatus::Unchanged) << "another weight changes nothing";
  EXPECT_EQ(actuator->apply(division(200, {})).status, OutcomeStatus::Unchanged) << "nor does none";
  tree_.write("cgroup/b/cpu.weight", "100\n");  // as the kernel does when it wakes the group
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(file("b/cpu.idle"), "0");
  EXPECT_EQ(file("b/cpu.weight"), "70");
  EXPECT_EQ(file("a/cpu.weight"), "100");
}

TEST_F(IdleTest, SwitchedOffAgainTheDecidedWeightHolds) {
  {
    auto actuator = Actuator::open(config_);
    ASSERT_EQ(actuator->apply(division(200, 50)).status, OutcomeStatus::Applied);
  }
  config_.levers.idle = false;
  {
    auto actuator = Actuator::open(config_);
    ASSERT_TRUE(actuator) << actuator.error().message;
    EXPECT_EQ(file("b/cpu.idle"), "0");
    EXPECT_EQ(file("b/cpu.weight"), "70");
    ASSERT_EQ(actuator->apply(division(200, 50)).status, OutcomeStatus::Applied);
    EXPECT_EQ(file("b/cpu.weight"), "50");
  }
  // And on: the weight goes back first.
  config_.levers.idle = true;
  auto actuator = Actuator::open(config_);
  EXPECT_EQ(file("b/cpu.weight"), "70");
  ASSERT_EQ(actuator->apply(division(200, 50)).status, OutcomeStatus::Applied);
  EXPECT_EQ(file("b/cpu.idle"), "1");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(file("b/cpu.idle") + " " + file("b/cpu.weight"), "0 70");
}

TEST_F(IdleTest, AJobThatWasIdleBeforeStaysSo) {
  tree_.write("cgroup/b/cpu.idle", "1\n");
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(division(200, 50)).status, OutcomeStatus::Applied);
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(file("b/cpu.idle"), "1");
}

TEST_F(IdleTest, WithoutCpuIdleTheLeastWeightStandsForIt) {
  fs::remove(tree_ / "cgroup/b/cpu.idle");
  auto actuator = Actuator::open(config_);
  EXPECT_EQ(mechanism(*actuator, "cpu.idle"), "yes: cpu.weight 1: the kernel has no cpu.idle (Linux 5.15) | ");
  ASSERT_EQ(actuator->apply(division({}, {})).status, OutcomeStatus::Applied);
  EXPECT_EQ(file("b/cpu.weight"), "1");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(file("b/cpu.weight"), "70");
}

TEST_F(IdleTest, WithoutTheCpuControllerItIsMissingAndSaid) {
  fs::remove(tree_ / "cgroup/b/cpu.weight");
  auto actuator = Actuator::open(config_);
  EXPECT_EQ(mechanism(*actuator, "cpu.idle"), "no: be has no cpu.weight of cgroup v2 | ");
  EXPECT_TRUE(actuator->missing().contains("cpu.idle"));
  EXPECT_EQ(actuator->apply(division({}, {})).status, OutcomeStatus::Applied);
  EXPECT_EQ(file("b/cpu.idle"), "0");
}

TEST_F(LeversTest, OneServiceWithoutTheKnobAndTheNodeDoesNotHaveIt) {
  fs::remove(tree_ / "cgroup/b/memory.high");
  const auto actuator = Actuator::open(config_, {.read_only = true});
  EXPECT_FALSE(actuator->platform().memory_mib);
  EXPECT_TRUE(actuator->platform().disk_iops);
  EXPECT_THAT(actuator->missing().at("memory.high"), HasSubstr("service 'be'"));
  EXPECT_THAT(mechanism(*actuator, "memory.high"), HasSubstr("| echo +memory > "));
}

TEST_F(LeversTest, SwitchedOffADecisionWithThemIsRefusedWhole) {
  config_.levers = {};
  auto actuator = Actuator::open(config_);
  EXPECT_FALSE(actuator->platform().memory_mib);
  const Outcome outcome = actuator->apply(decision_);
  EXPECT_EQ(outcome.status, OutcomeStatus::Refused);
  EXPECT_EQ(outcome.message,
            "service 'lc': memory_mib 600 cannot be set on this node: levers.memory is off in the agent's "
            "configuration; set levers.memory: on");
  EXPECT_EQ(high("a"), "max");
  EXPECT_EQ(tree_.text("cgroup/a/cpuset.cpus"), "");
}

TEST_F(LeversTest, ADryRunSaysTheStepsAndWritesNothing) {
  auto actuator = Actuator::open(config_);
  EXPECT_EQ(actuator->apply(decision_, true).message,
            "lc: cpus - -> 0-4\nbe: cpus - -> 5-7\nlc: memory_mib - -> 600\nbe: memory_mib - -> 200\n"
            "lc: disk_iops - -> 300\nbe: disk_iops - -> 100");
  expect_as_found();
}

TEST_F(LeversTest, AppliesOnceIsThenUnchangedAndRestores) {
  auto actuator = Actuator::open(config_);
  const Outcome applied = actuator->apply(decision_);
  ASSERT_EQ(applied.status, OutcomeStatus::Applied) << applied.message;
  EXPECT_EQ(high("a"), "629145600");
  EXPECT_EQ(io("b"), "8:0 riops=100");
  EXPECT_EQ((*actuator->read())[0].levers, decision_.assignments[0].levers);
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  ASSERT_TRUE(actuator->restore());
  expect_as_found();
  ASSERT_TRUE(actuator->restore());
}

TEST_F(LeversTest, WhatTheDecisionLeavesOutIsAsFound) {
  tree_.write("cgroup/a/memory.high", "1073741824\n");
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  decision_.assignments[0].levers = {};
  decision_.assignments[1].levers.memory_mib = 300;
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(high("a"), "1073741824");
  EXPECT_EQ(io("a"), "8:0 riops=max");
  EXPECT_EQ(high("b"), "314572800");
}

TEST_F(LeversTest, AServiceIsNotPushedBelowItsWorkingSet) {
  auto actuator = Actuator::open(config_);
  decision_.assignments[0].levers.memory_mib = 110;
  const Outcome outcome = actuator->apply(decision_);
  EXPECT_EQ(outcome.status, OutcomeStatus::Refused);
  EXPECT_THAT(outcome.message, HasSubstr("service 'lc': memory_mib 110 is below 113 MiB"));
  expect_as_found();
  decision_.assignments[0].levers.memory_mib = 120;
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  tree_.write("cgroup/a/memory.current", "524288000\n");  // it grows; what is in force stays legal
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
}

// A plain file holds what was written last: of two disks it reports only the second, as a kernel that ignored the
// first.
TEST_F(LeversTest, WhatTheKernelDoesNotReportIsRolledBack) {
  add_disk(tree_, "sdb", "8:16", false);
  auto actuator = Actuator::open(config_);
  const Outcome outcome = actuator->apply(decision_);
  EXPECT_EQ(outcome.status, OutcomeStatus::RolledBack);
  EXPECT_THAT(outcome.message, HasSubstr("disk_iops - -> 300 failed: the agent wrote '300', but the kernel reports"));
  expect_as_found();
  EXPECT_EQ(tree_.text("cgroup/a/cpuset.cpus"), "");
}

TEST_F(LeversTest, SwitchedOffLaterIsRestoredAtTheNextStart) {
  {
    auto actuator = Actuator::open(config_);
    ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  }
  config_.levers = {};
  const auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator);
  expect_as_found();
  EXPECT_THAT(actuator->healed(), HasSubstr("restored 4 settings"));
}

}  // namespace
}  // namespace osml
