// The memory of services follows their CPUs: whole decisions on a machine with two NUMA nodes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "apply/actuator.h"
#include "apply/journal.h"
#include "cli/commands.h"
#include "numa_tree.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::add_memory;
using testing_support::add_sockets;
using testing_support::set_nodes;
using testing_support::set_room;
using testing_support::Tree;

class MemoryNodesTest : public testing::Test {
 protected:
  // lc has CPUs 0-3 and be 4-7; each has 300 MiB, on the node of the other.
  MemoryNodesTest() {
    tree_.sysfs().cgroup2("a", 10).cgroup2("b", 20);
    add_sockets(tree_);
    add_memory(tree_, "a", 0, 300);
    add_memory(tree_, "b", 300, 0);
    config_ = tree_.config();
    config_.cpu.follow_memory = true;
    decision_.node = "n";
    decision_.seq = 3;
    divide("0-3", "4-7");
  }
  void divide(const std::string& lc, const std::string& be) {
    const auto count = [](const std::string& cpus) { return static_cast<unsigned>(parse_cpulist(cpus)->size()); };
    decision_.partition.regions = {{{"lc"}, count(lc), 0}, {{"be"}, count(be), 0}};
    decision_.assignments = {{"lc", lc, {}, {}, {}, {}}, {"be", be, {}, {}, {}, {}}};
  }
  [[nodiscard]] std::string nodes() const {
    return tree_.text("cgroup/a/cpuset.mems") + "|" + tree_.text("cgroup/b/cpuset.mems");
  }
  static std::string mechanism(const Actuator& actuator) {
    for (const Mechanism& one : actuator.mechanisms()) {
      if (one.name == "memory_nodes")
        return (one.available ? "yes: " : "no: ") + one.reason + " | " + one.how_to_enable;
    }
    return "not listed";
  }
  [[nodiscard]] std::string in_journal() const {
    const Journal journal = *load_journal(config_.state_dir / "journal.json");
    std::string text;
    for (const Applied& applied : journal.applied) {
      const auto value = applied.values.find(Aspect::Nodes);
      text += applied.service + "=" + (value == applied.values.end() ? "-" : value->second) + " ";
    }
    return text;
  }

  Tree tree_;
  Config config_;
  Decision decision_;
};

TEST_F(MemoryNodesTest, SwitchedOffNothingMovesAndProbeSaysHowToSwitchItOn) {
  config_.cpu = {};
  auto actuator = Actuator::open(config_);
  EXPECT_EQ(mechanism(*actuator),
            "no: cpu.memory_nodes is off in the agent's configuration | set cpu.memory_nodes: follow");
  EXPECT_FALSE(actuator->missing().contains("memory_nodes"));
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(nodes(), "|");
}

TEST_F(MemoryNodesTest, ProbeSaysWhatThisMachineHas) {
  EXPECT_EQ(mechanism(*Actuator::open(config_, {.read_only = true})), "yes: cgroup2 | ");
  fs::remove(tree_ / "cgroup/b/cpuset.mems");
  {
    const auto actuator = Actuator::open(config_, {.read_only = true});
    EXPECT_THAT(mechanism(*actuator), HasSubstr("no: service 'be': cgroup2: "));
    EXPECT_THAT(mechanism(*actuator), HasSubstr("echo +cpuset > "));
    EXPECT_TRUE(actuator->missing().contains("memory_nodes"));
  }
  config_.cpu.backend = "affinity";
  config_.roots.proc = "/proc";
  EXPECT_EQ(mechanism(*Actuator::open(config_, {.read_only = true})),
            "no: services 'lc', 'be': cpu.backend: affinity leaves cpusets alone | ");
  set_nodes(tree_, "0", "0");
  const auto actuator = Actuator::open(config_, {.read_only = true});
  EXPECT_EQ(mechanism(*actuator), "no: all CPUs of this machine have the same NUMA nodes of memory | ");
  EXPECT_FALSE(actuator->missing().contains("memory_nodes")) << "nobody misses it there";
}

TEST_F(MemoryNodesTest, ADryRunSaysTheStepsAndWritesNothing) {
  auto actuator = Actuator::open(config_);
  EXPECT_EQ(actuator->apply(decision_, true).message,
            "lc: cpus - -> 0-3\nbe: cpus - -> 4-7\nlc: memory_nodes - -> 0\nbe: memory_nodes - -> 1");
  EXPECT_EQ(nodes(), "|");
  set_room(tree_, 1, 1000, 310);
  EXPECT_THAT(actuator->apply(decision_, true).message, Not(HasSubstr("be: memory_nodes")));
  EXPECT_THAT(actuator->missing().at("memory_nodes.be"), HasSubstr("300 MiB would move there"));
}

TEST_F(MemoryNodesTest, MemoryFollowsTheCpusAndGoesBack) {
  auto actuator = Actuator::open(config_);
  const Outcome applied = actuator->apply(decision_);
  ASSERT_EQ(applied.status, OutcomeStatus::Applied) << applied.message;
  EXPECT_EQ(nodes(), "0|1");
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  divide("0-2", "3-7");
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(nodes(), "0|0-1");
  divide("4-7", "0-3");
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(nodes(), "1|0-1") << "be may come back to the nodes of CPUs 4-7";
  EXPECT_EQ(in_journal(), "lc=1 be=0-1 ");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(nodes(), "|");
}

TEST_F(MemoryNodesTest, CpusThatGoToAndFroDoNotMovePagesEachTime) {
  auto actuator = Actuator::open(config_);
  const auto after = [&](const char* lc, const char* be) {
    divide(lc, be);
    const Outcome applied = actuator->apply(decision_);
    EXPECT_EQ(applied.status, OutcomeStatus::Applied) << applied.message;
    return nodes();
  };
  EXPECT_EQ(after("0-3", "4-7"), "0|1");
  EXPECT_EQ(after("0-4", "5-7"), "0-1|1");
  EXPECT_EQ(after("0-3", "4-7"), "0-1|1");
  EXPECT_EQ(after("0-4", "5-7"), "0-1|1");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(after("4-7", "0-3"), "0-1|0") << "what has to leave all its nodes does so at once";
  EXPECT_FALSE(actuator->missing().contains("memory_nodes.lc")) << "there is room";
}

TEST_F(MemoryNodesTest, NodesThatAreNotNearForAWhileAreLeftWithoutADecision) {
  config_.interval_s = 0.05;
  auto actuator = Actuator::open(config_);
  for (const char* cpus : {"0-3", "0-4", "0-3"}) {
    divide(cpus, "5-7");
    ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  }
  EXPECT_EQ(nodes(), "0-1|1");
  std::this_thread::sleep_for(std::chrono::milliseconds(450));
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(nodes(), "0|1");
}

TEST_F(MemoryNodesTest, WithoutCpusOfItsOwnAServiceIsAsFound) {
  tree_.write("cgroup/b/cpuset.mems", "1\n");
  auto actuator = Actuator::open(config_);
  divide("4-7", "0-3");
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(nodes(), "1|0");
  decision_.assignments[1].cpus.reset();
  decision_.assignments[1].cpu_quota = 2;
  const Outcome applied = actuator->apply(decision_);
  ASSERT_EQ(applied.status, OutcomeStatus::Applied) << applied.message;
  EXPECT_EQ(nodes(), "1|1");
}

TEST_F(MemoryNodesTest, OnlyNodesThatTheGroupAboveHas) {
  tree_.write("cgroup/cpuset.mems.effective", "1\n");
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(nodes(), "|") << "lc has no other memory, and be needs no words for it";
}

TEST_F(MemoryNodesTest, AFullNodeIsSaidAndTakenWhenThereIsRoom) {
  set_room(tree_, 1, 1000, 310);
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(nodes(), "0|") << "be may use all nodes as it is";
  EXPECT_THAT(actuator->missing().at("memory_nodes.be"), HasSubstr("300 MiB would move there"));
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_THAT(actuator->missing().at("memory_nodes.be"), HasSubstr("300 MiB would move there"));
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  set_room(tree_, 1, 1000, 500);
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(nodes(), "0|1");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_FALSE(actuator->missing().contains("memory_nodes.be"));
}

TEST_F(MemoryNodesTest, RoomForMemoryThatIsOnItsWayIsGivenToNobodyElse) {
  add_memory(tree_, "a", 300, 0);
  add_memory(tree_, "b", 300, 0);
  tree_.write("cgroup/a/cpuset.mems", "1\n").write("cgroup/b/cpuset.mems", "0\n");
  set_room(tree_, 1, 1000, 500);
  auto actuator = Actuator::open(config_);
  divide("4-5", "6-7");
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(nodes(), "1|0-1");
  add_memory(tree_, "a", 0, 300);
  tree_.write("cgroup/a/cpuset.mems", "1\n").write("cgroup/b/cpuset.mems", "0-1\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(nodes(), "1|1") << "it has come, and 500 MiB are free still";
}

TEST_F(MemoryNodesTest, MemoryThatComesLaterIsSeen) {
  set_nodes(tree_, "0-1", "0");
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(nodes(), "|");
  set_nodes(tree_, "0-1", "0-1");
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(nodes(), "0|1");
  EXPECT_EQ(mechanism(*actuator), "yes: cgroup2 | ");
}

TEST_F(MemoryNodesTest, ANodeThatGetsFullIsLeftWithoutADecision) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  set_room(tree_, 0, 1000, 20);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(nodes(), "0-1|1");
  EXPECT_EQ(in_journal(), "lc=0-1 be=1 ");
  EXPECT_THAT(actuator->missing().at("memory_nodes.lc"), HasSubstr("its memory may be on nodes 0-1"));
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  add_memory(tree_, "a", 300, 0);
  tree_.write("cgroup/a/cpuset.mems", "0-1\n");
  set_room(tree_, 0, 1000, 100);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(nodes(), "0|1");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(nodes(), "|");
}

TEST_F(MemoryNodesTest, WhatAnotherProgramWroteIsSetAgain) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  tree_.write("cgroup/a/cpuset.mems", "\n").write("cgroup/b/cpuset.mems", "0-1\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(nodes(), "0|1");
}

TEST_F(MemoryNodesTest, AServiceThatWasStartedAnewIsPlacedWhereThereIsRoom) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  const auto start_anew = [this] {
    tree_.cgroup2("fresh", 30);
    add_memory(tree_, "fresh", 10, 0);
    fs::remove_all(tree_ / "cgroup/b");
    fs::rename(tree_ / "cgroup/fresh", tree_ / "cgroup/b");
  };
  start_anew();
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(nodes(), "0|1");
  set_room(tree_, 1, 1000, 20);
  start_anew();
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(nodes(), "0|") << "full by now";
  EXPECT_EQ(tree_.text("cgroup/b/cpuset.cpus"), "4-7");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(nodes(), "|");
}

TEST_F(MemoryNodesTest, AStepThatFailsUndoesTheWholeDecision) {
  auto actuator = Actuator::open(config_);
  const Fd sealed(::memfd_create("sealed", MFD_ALLOW_SEALING));  // can be read, and refuses each write
  ASSERT_EQ(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
  fs::remove(tree_ / "cgroup/b/cpuset.mems");
  fs::create_symlink("/proc/self/fd/" + std::to_string(sealed.get()), tree_ / "cgroup/b/cpuset.mems");
  const Outcome outcome = actuator->apply(decision_);
  EXPECT_EQ(outcome.status, OutcomeStatus::Failed) << "what refuses each write cannot be written back either";
  EXPECT_THAT(outcome.message, HasSubstr("be: memory_nodes - -> 1 failed: "));
  EXPECT_EQ(nodes(), "|");
  EXPECT_EQ(tree_.text("cgroup/a/cpuset.cpus") + tree_.text("cgroup/b/cpuset.cpus"), "");
}

TEST_F(MemoryNodesTest, ARestartKeepsItAndRestoresWithoutTheConfiguration) {
  ASSERT_EQ(Actuator::open(config_)->apply(decision_).status, OutcomeStatus::Applied);
  {
    auto again = Actuator::open(config_);
    EXPECT_EQ(again->healed(), "");
    EXPECT_EQ(nodes(), "0|1");
    EXPECT_EQ(again->apply(decision_).status, OutcomeStatus::Unchanged);
  }
  std::ostringstream said;
  cli::Options options;
  options.state_dir = config_.state_dir;
  ASSERT_TRUE(cli::restore(options, false, said));
  EXPECT_EQ(nodes(), "|");
}

// As a crash in the middle leaves it.
TEST_F(MemoryNodesTest, AnInterruptedTransactionIsUndoneAtTheNextStart) {
  ASSERT_EQ(Actuator::open(config_)->apply(decision_).status, OutcomeStatus::Applied);
  const fs::path file = config_.state_dir / "journal.json";
  Journal journal = *load_journal(file);
  for (const Saved& saved : journal.originals) journal.pending.push_back(saved);
  ASSERT_TRUE(save_journal(file, journal));
  EXPECT_THAT(Actuator::open(config_)->healed(), HasSubstr("undid 4 settings"));
  EXPECT_EQ(nodes(), "|");
}

TEST_F(MemoryNodesTest, SwitchedOffLaterIsRestoredAtTheNextStart) {
  ASSERT_EQ(Actuator::open(config_)->apply(decision_).status, OutcomeStatus::Applied);
  config_.cpu = {};
  const auto actuator = Actuator::open(config_);
  EXPECT_EQ(nodes(), "|");
  EXPECT_EQ(tree_.text("cgroup/a/cpuset.cpus"), "0-3");
  EXPECT_THAT(actuator->healed(), HasSubstr("restored 2 settings"));
}

TEST_F(MemoryNodesTest, OnCgroup1Too) {
  for (const char* group : {"a", "b"}) {
    fs::remove_all(tree_ / (std::string("cgroup/") + group));
    for (const std::string& base : {std::string("cgroup/cpuset"), std::string("cgroup/cpuset/") + group}) {
      tree_.write(base + "/cpuset.mems", "0-1\n").write(base + "/cpuset.memory_migrate", "0\n");
      tree_.write(base + "/cpuset.cpus", "0-7\n").write(base + "/tasks", "").write(base + "/cgroup.procs", "10\n");
    }
  }
  tree_.write("proc/10/statm", "1000 700 30 1 0 90 0\n");
  fs::remove(tree_ / "cgroup/cgroup.controllers");
  const auto state = [this](const char* group) {
    const std::string base = std::string("cgroup/cpuset/") + group;
    return tree_.text(base + "/cpuset.mems") + "/" + tree_.text(base + "/cpuset.memory_migrate");
  };
  auto actuator = Actuator::open(config_);
  EXPECT_EQ(mechanism(*actuator), "yes: cgroup1 | ");
  const Outcome applied = actuator->apply(decision_);
  ASSERT_EQ(applied.status, OutcomeStatus::Applied) << applied.message;
  EXPECT_EQ(state("a") + " " + state("b"), "0/1 1/1");
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(state("a") + " " + state("b"), "0-1/0 0-1/0");
}

}  // namespace
}  // namespace osml
