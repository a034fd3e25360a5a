#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "cpu/affinity.h"
#include "cpu/members.h"
#include "node/mechanisms.h"
#include "tree.h"

namespace osml {
namespace {

using testing_support::Tree;

// A real process with three threads that sleep until it is killed.
class ChildProcess {
 public:
  ChildProcess() {
    int ready[2] = {-1, -1};
    if (::pipe(ready) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      std::thread([] { ::pause(); }).detach();
      std::thread([] { ::pause(); }).detach();
      const bool told = ::write(ready[1], "x", 1) == 1;
      while (told) ::pause();
      ::_exit(0);
    }
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) pid_ = -1;
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() { stop(); }
  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  [[nodiscard]] Match match() const {
    Match match;
    match.pids = {pid_};
    return match;
  }

 private:
  pid_t pid_ = -1;
};

std::string first_cpu(const std::string& list) { return list.substr(0, list.find_first_of(",-")); }

TEST(AffinityTest, BindsEveryThreadAndPutsEachBack) {
  ChildProcess child;
  AffinityKnob knob(Roots{}, child.match());
  ASSERT_TRUE(knob.probe());
  ASSERT_GE(member_tids(Roots{}, child.match())->size(), 3U);
  const std::string before = *knob.read();
  const std::string snapshot = *knob.snapshot();
  const std::string one = first_cpu(before);
  ASSERT_TRUE(knob.write(one));
  EXPECT_EQ(*knob.read(), one);  // the union over the threads: none was left behind
  ASSERT_TRUE(knob.restore(snapshot));
  EXPECT_EQ(*knob.read(), before);
  ASSERT_TRUE(knob.restore(snapshot));
}

TEST(AffinityTest, WhoWasBornSinceGetsWhatAllWereFoundWith) {
  ChildProcess child;
  AffinityKnob knob(Roots{}, child.match());
  const std::string before = *knob.read();
  if (before == first_cpu(before)) GTEST_SKIP() << "this machine has one CPU";
  const std::string one = first_cpu(before);
  ASSERT_TRUE(knob.write(one));
  const ChildProcess later;
  Tree tree;
  tree.write("cgroup/cgroup.controllers", "cpuset\n");
  tree.write("cgroup/x/cgroup.procs", std::to_string(child.match().pids[0]) + "\n");
  Roots roots = tree.roots();
  roots.proc = "/proc";
  Match cgroup;
  cgroup.cgroup = "x";
  AffinityKnob of_cgroup(roots, cgroup);
  const std::string snapshot = *of_cgroup.snapshot();
  tree.write("cgroup/x/cgroup.procs",
             std::to_string(child.match().pids[0]) + "\n" + std::to_string(later.match().pids[0]) + "\n");
  ASSERT_TRUE(of_cgroup.restore(snapshot));
  EXPECT_EQ(*of_cgroup.read(), one);
}

TEST(AffinityTest, AStrangerWithTheIdOfAServiceIsLeftAlone) {
  ChildProcess child;
  AffinityKnob knob(Roots{}, child.match());
  const std::string before = *knob.read();
  if (before == first_cpu(before)) GTEST_SKIP() << "this machine has one CPU";
  ASSERT_TRUE(knob.write(first_cpu(before)));
  const std::string of_another = std::to_string(child.match().pids[0]) + " 1 " + before + "\n";
  ASSERT_TRUE(knob.restore(of_another));
  EXPECT_EQ(*knob.read(), first_cpu(before));
}

// The agent looked at the second one after it had set the first.
TEST(AffinityTest, AProcessThatCameAfterTheFirstDecisionIsPutBackToo) {
  ChildProcess first;
  ChildProcess second;
  Match match = first.match();
  AffinityKnob alone(Roots{}, match);
  const std::string before = *alone.read();
  if (before == first_cpu(before)) GTEST_SKIP() << "this machine has one CPU";
  const std::string snapshot = *alone.snapshot();
  match.pids.push_back(second.match().pids[0]);
  AffinityKnob both(Roots{}, match);
  ASSERT_TRUE(both.write(first_cpu(before)));
  ASSERT_TRUE(both.restore(snapshot));
  EXPECT_EQ(*alone.read(), before);
  EXPECT_EQ(*AffinityKnob(Roots{}, second.match()).read(), before);
}

TEST(AffinityTest, AThreadThatCannotBePutBackKeepsNoOther) {
  ChildProcess child;
  AffinityKnob knob(Roots{}, child.match());
  const std::string before = *knob.read();
  if (before == first_cpu(before)) GTEST_SKIP() << "this machine has one CPU";
  std::string snapshot = *knob.snapshot();
  const std::size_t end = snapshot.find('\n');
  const std::size_t value = snapshot.rfind(' ', end) + 1;
  snapshot.replace(value, end - value, "8000");  // a CPU that has gone offline since
  ASSERT_TRUE(knob.write(first_cpu(before)));
  EXPECT_FALSE(knob.restore(snapshot));
  EXPECT_EQ(*knob.read(), before) << "of the others";
}

// For a while this process is of a user without rights.
class AsNobody {
 public:
  AsNobody() { became_ = ::seteuid(65534) == 0; }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  ~AsNobody() {
    if (became_) (void)::seteuid(0);
  }

 private:
  bool became_ = false;
};

// Nothing was changed, so nothing is left to undo: the agent must not say that it could not be undone.
TEST(AffinityTest, WithoutRootTheHintIsRootAndThereIsNothingToUndo) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can start a process that is not its own";
  ChildProcess child;
  AffinityKnob knob(Roots{}, child.match());
  const std::string before = *knob.read();
  if (before == first_cpu(before)) GTEST_SKIP() << "this machine has one CPU";
  const std::string snapshot = *knob.snapshot();
  const AsNobody nobody;
  const Status written = knob.write(first_cpu(before));
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("Operation not permitted; run the agent as root"), std::string::npos)
      << written.error().message;
  EXPECT_TRUE(knob.restore(snapshot));
}

// The machine has it, but `probe` is asked what works here.
TEST(AffinityTest, WithoutRootTheProbeOffersNothingThatNeedsRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "a user without root owns this tree, and may write to it";
  Tree tree;
  tree.cgroup2("redis", 4242);
  fs::permissions(tree.root(), fs::perms(0755));
  EXPECT_TRUE(of_machine("cpu_quota", "cpu", tree.roots()).available);
  const AsNobody nobody;
  const Mechanism quota = of_machine("cpu_quota", "cpu", tree.roots());
  EXPECT_FALSE(quota.available);
  EXPECT_EQ(quota.reason, "cgroup2, but this user cannot write to " + tree.roots().cgroup.string());
  EXPECT_EQ(quota.how_to_enable, "run it as root");
  const auto all = probe_mechanisms(Config{}, Error{ErrorKind::Unsupported, "no resctrl", 0}, {});
  const auto affinity = std::ranges::find(all, std::string("affinity"), &Mechanism::name);
  ASSERT_NE(affinity, all.end());
  EXPECT_FALSE(affinity->available);
}

TEST(AffinityTest, ReconcileNarrowsThreadsThatRunElsewhere) {
  ChildProcess child;
  AffinityKnob knob(Roots{}, child.match());
  const std::string before = *knob.read();
  if (before == first_cpu(before)) GTEST_SKIP() << "this machine has one CPU";
  ASSERT_TRUE(knob.reconcile(first_cpu(before)));
  EXPECT_EQ(*knob.read(), first_cpu(before));
}

TEST(AffinityTest, AServiceThatHasGoneIsNoError) {
  ChildProcess child;
  AffinityKnob knob(Roots{}, child.match());
  const std::string snapshot = *knob.snapshot();
  child.stop();
  EXPECT_EQ(*knob.read(), "");
  EXPECT_TRUE(knob.write("0"));
  EXPECT_TRUE(knob.same("", "0"));
  EXPECT_TRUE(knob.restore(snapshot));
}

TEST(AffinityTest, SimulatedTasksAreNotTouched) {
  Tree tree;
  Match match;
  match.pids = {1};
  tree.write("proc/1/task/1/comm", "init\n");
  EXPECT_FALSE(AffinityKnob(tree.roots(), match).probe());
}

}  // namespace
}  // namespace osml
