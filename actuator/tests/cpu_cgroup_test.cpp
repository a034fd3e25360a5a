#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "cpu/cgroup1.h"
#include "cpu/cgroup2.h"
#include "cpu/members.h"
#include "tree.h"

namespace osml {
namespace {

using testing_support::Tree;

Match at(const std::string& path) {
  Match match;
  match.cgroup = path;
  return match;
}

TEST(Cgroup2Test, WritesOneCommandAndReadsItBack) {
  Tree tree;
  tree.cgroup2("lc/x", 10);
  Cgroup2Cpuset cpus(tree.roots(), at("/lc/x"));
  ASSERT_TRUE(cpus.probe());
  EXPECT_EQ(*cpus.snapshot(), "");
  ASSERT_TRUE(cpus.write("0-3"));
  EXPECT_EQ(tree.text("cgroup/lc/x/cpuset.cpus"), "0-3");
  EXPECT_TRUE(cpus.same("0,1-3", "0-3"));
  EXPECT_FALSE(cpus.same("", "0-3"));
  ASSERT_TRUE(cpus.restore(""));
  EXPECT_EQ(*cpus.read(), "");
}

TEST(Cgroup2Test, LessThanAskedForIsAnError) {
  Tree tree;
  tree.cgroup2("x", 10).write("cgroup/x/cpuset.cpus.effective", "0-1\n");
  const Status written = Cgroup2Cpuset(tree.roots(), at("x")).write("0-3");
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("the agent set CPUs 0-3, but the kernel allows 0-1"), std::string::npos);
}

TEST(Cgroup2Test, ReadsWhatIsInForceWhereACgroupAboveHasFewerCpus) {
  Tree tree;
  tree.cgroup2("x", 10).write("cgroup/cpuset.cpus.effective", "0-7\n");
  tree.write("cgroup/x/cpuset.cpus", "4-7\n").write("cgroup/x/cpuset.cpus.effective", "4-7\n");
  Cgroup2Cpuset cpus(tree.roots(), at("x"));
  EXPECT_EQ(*cpus.in_force(), "4-7");
  tree.write("cgroup/x/cpuset.cpus.effective", "0-3\n");
  EXPECT_EQ(*cpus.in_force(), "0-3");
  EXPECT_EQ(*cpus.read(), "4-7") << "a decision that says so changes nothing";
  // A CPU that is offline is nobody's decision.
  tree.write("cgroup/cpuset.cpus.effective", "0-6\n").write("cgroup/x/cpuset.cpus.effective", "4-6\n");
  EXPECT_EQ(*cpus.in_force(), "4-7");
}

TEST(Cgroup2Test, SaysHowToEnableTheController) {
  Tree tree;
  tree.cgroup2("x", 10);
  fs::remove(tree / "cgroup/x/cpuset.cpus");
  const Status usable = Cgroup2Cpuset(tree.roots(), at("x")).probe();
  ASSERT_FALSE(usable);
  EXPECT_NE(usable.error().message.find("; run: echo +cpuset > "), std::string::npos);
  EXPECT_FALSE(Cgroup2Cpuset(tree.roots(), at("none")).probe());
  EXPECT_FALSE(Cgroup2Cpuset(tree.roots(), at("../cgroup/x")).probe());
}

TEST(Cgroup2Test, OfAUnitOfSystemdTheHintIsWhatLasts) {
  Tree tree;
  tree.cgroup2("system.slice/web.service", 10).write("cgroup/cpuset.cpus.effective", "0-7\n");
  fs::remove(tree / "cgroup/system.slice/web.service/cpuset.cpus");
  fs::remove(tree / "cgroup/system.slice/web.service/cpu.max");
  const Match unit = at("system.slice/web.service");
  const Status cpus = Cgroup2Cpuset(tree.roots(), unit).probe();
  EXPECT_NE(cpus.error().message.find("; run: systemctl set-property web.service AllowedCPUs=0-7"), std::string::npos);
  const Status quota = Cgroup2Quota(tree.roots(), unit).probe();
  EXPECT_NE(quota.error().message.find("; run: systemctl set-property web.service CPUWeight=100"), std::string::npos);
}

TEST(KnobsTest, AffinityForWantOfACpusetIsSaidToBeWeak) {
  Tree tree;
  tree.sysfs().cgroup2("a", 10).cgroup2("b", 20);
  Config config = tree.config();
  config.roots.proc = "/proc";
  fs::remove(tree / "cgroup/a/cpuset.cpus");
  const KnobSet set = choose_knobs({"lc", config.services[0].match, false, true, {}, {}, {}}, false, config,
                                   Error{ErrorKind::Unsupported, "no resctrl", 0});
  ASSERT_NE(set.find(Aspect::Cpus), nullptr);
  EXPECT_EQ(set.find(Aspect::Cpus)->backend(), "affinity");
  const auto actuator = Actuator::open(config, {.read_only = true});
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_NE(actuator->missing().at("cpuset.lc").find("weak: only their affinity"), std::string::npos);
  EXPECT_FALSE(actuator->missing().contains("cpuset.be"));
  EXPECT_NE(actuator->mechanisms()[0].reason.find("weak"), std::string::npos) << actuator->mechanisms()[0].reason;
  EXPECT_NE(actuator->mechanisms()[0].how_to_enable, "");
}

TEST(KnobsTest, WhatAllServicesAndBackendsLackForOneReasonIsSaidOnce) {
  Tree tree;
  tree.sysfs().cgroup2("a", 10).cgroup2("b", 20);
  Config config = tree.config();
  for (ServiceConfig& service : config.services) {
    service.match = {};
    service.match.pids = {10};
  }
  const auto actuator = Actuator::open(config, {.read_only = true});
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(actuator->missing().at("cpu_quota"), "services 'lc', 'be': matched by process ids, not by a cgroup");
  EXPECT_EQ(actuator->missing().at("cpu_weight"), "services 'lc', 'be': matched by process ids, not by a cgroup");
}

TEST(Cgroup2Test, QuotaAndWeight) {
  Tree tree;
  tree.cgroup2("x", 10);
  Cgroup2Quota quota(tree.roots(), at("x"));
  EXPECT_EQ(*quota.read(), "");
  ASSERT_TRUE(quota.write("1.5"));
  EXPECT_EQ(tree.text("cgroup/x/cpu.max"), "15000 10000");
  EXPECT_TRUE(quota.same(*quota.read(), "1.5"));
  ASSERT_TRUE(quota.restore("max 100000"));
  EXPECT_EQ(*quota.read(), "");
  Cgroup2Weight weight(tree.roots(), at("x"));
  ASSERT_TRUE(weight.write("300"));
  EXPECT_EQ(*weight.read(), "300");
}

class Cgroup1Test : public testing::Test {
 protected:
  Cgroup1Test() {
    tree_.write("cgroup/cpuset/x/cpuset.cpus", "0-7\n").write("cgroup/cpuset/x/tasks", "10\n11\n");
    tree_.write("cgroup/cpuset/x/cgroup.procs", "10\n");
    tree_.write("cgroup/cpuset/x/child/cpuset.cpus", "4-7\n").write("cgroup/cpuset/x/child/tasks", "");
    tree_.write("cgroup/cpu,cpuacct/x/tasks", "").write("cgroup/cpu,cpuacct/x/cpu.shares", "1024\n");
    tree_.write("cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
    tree_.write("cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  }
  Tree tree_;
};

TEST_F(Cgroup1Test, ChildrenFollowAndComeBack) {
  Cgroup1Cpuset cpus(tree_.roots(), at("x"));
  ASSERT_TRUE(cpus.probe());
  const std::string before = *cpus.snapshot();
  ASSERT_TRUE(cpus.write("0-1"));
  EXPECT_EQ(tree_.text("cgroup/cpuset/x/cpuset.cpus"), "0-1");
  EXPECT_EQ(tree_.text("cgroup/cpuset/x/child/cpuset.cpus"), "0-1");
  ASSERT_TRUE(cpus.restore(before));
  EXPECT_EQ(tree_.text("cgroup/cpuset/x/cpuset.cpus"), "0-7");
  EXPECT_EQ(tree_.text("cgroup/cpuset/x/child/cpuset.cpus"), "4-7");
}

TEST_F(Cgroup1Test, QuotaIsTwoFilesAndSharesAreScaled) {
  Cgroup1Quota quota(tree_.roots(), at("x"));
  ASSERT_TRUE(quota.probe());
  const std::string before = *quota.snapshot();
  ASSERT_TRUE(quota.write("0.5"));
  EXPECT_EQ(tree_.text("cgroup/cpu,cpuacct/x/cpu.cfs_quota_us"), "5000");
  EXPECT_EQ(tree_.text("cgroup/cpu,cpuacct/x/cpu.cfs_period_us"), "10000");
  EXPECT_TRUE(quota.same(*quota.read(), "0.5"));
  ASSERT_TRUE(quota.restore(before));
  EXPECT_EQ(*quota.read(), "");
  Cgroup1Weight weight(tree_.roots(), at("x"));
  for (const char* wanted : {"1", "37", "100", "9999"}) {
    ASSERT_TRUE(weight.write(wanted));
    EXPECT_EQ(*weight.read(), wanted);
  }
}

TEST_F(Cgroup1Test, MembersAreThreadsOfListedProcesses) {
  tree_.write("proc/10/task/10/comm", "").write("proc/10/task/11/comm", "");
  EXPECT_EQ(*member_pids(tree_.roots(), at("x")), (std::vector<pid_t>{10}));
  EXPECT_EQ(*member_tids(tree_.roots(), at("x")), (std::vector<pid_t>{10, 11}));
  EXPECT_TRUE(member_tids(tree_.roots(), at("none"))->empty());
}

TEST(MembersTest, APathMayEndWithASlash) {
  Tree tree;
  tree.cgroup2("a", 10).write("cgroup/cpuset/b/tasks", "");
  for (const char* end : {"", "/", "//", "/."}) {
    EXPECT_EQ(*find_cgroup2(tree.roots(), std::string("/a") + end), tree / "cgroup/a");
    EXPECT_EQ(*find_cgroup1(tree.roots(), "cpuset", std::string("b") + end), tree / "cgroup/cpuset/b");
  }
}

TEST(MembersTest, DescendantsOfCgroupsAndWorkersOfProcesses) {
  Tree tree;
  tree.cgroup2("x", 10).cgroup2("x/pod", 20).write("x.pid", "30\n");
  EXPECT_EQ(*member_tids(tree.roots(), at("x")), (std::vector<pid_t>{10, 11, 20, 21}));
  tree.write("proc/30/task/30/children", "31 \n").write("proc/31/task/31/children", "\n");
  Match match;
  match.pid_file = tree / "x.pid";
  EXPECT_EQ(*member_tids(tree.roots(), match), (std::vector<pid_t>{30, 31}));
  match.pid_file = tree / "none.pid";
  EXPECT_TRUE(member_pids(tree.roots(), match)->empty());
  tree.write("x.pid", "30 or so\n");
  match.pid_file = tree / "x.pid";
  EXPECT_FALSE(member_pids(tree.roots(), match));
}

// As a container ends between two looks of the walk.
TEST(MembersTest, ACgroupThatVanishesDuringTheWalkHidesNoOther) {
  const Tree tree;
  for (const char* group : {"a/below", "b/gone", "c/below"})
    tree.write(std::string("x/") + group + "/cgroup.procs", "");
  const ListDirectories list = [&tree](const fs::path& path) {
    if (path.filename() == "b") fs::remove_all(tree / "x/b");
    return list_subdirectories(path);
  };
  const auto groups = cgroup_tree(tree / "x", list);
  ASSERT_TRUE(groups) << groups.error().message;
  EXPECT_EQ(*groups, (std::vector<fs::path>{tree / "x", tree / "x/a", tree / "x/b", tree / "x/c", tree / "x/a/below",
                                            tree / "x/c/below"}));
  const ListDirectories forbidden = [](const fs::path&) {
    return Result<std::vector<std::string>>(errno_error(EACCES, "cannot open"));
  };
  EXPECT_FALSE(cgroup_tree(tree / "x", forbidden));
}

class PidFileTest : public testing::Test {
 protected:
  PidFileTest() {
    match_.pid_file = tree_ / "x.pid";
    tree_.write("proc/30/task/30/comm", "").write("proc/30/status", "Name:\tx\nUid:\t1000\t1000\t1000\t1000\n");
  }
  [[nodiscard]] std::string why() const {
    const auto pids = member_pids(tree_.roots(), match_);
    return pids ? "accepted" : pids.error().message;
  }
  Tree tree_;
  Match match_;
};

TEST_F(PidFileTest, ASymbolicLinkIsRefusedAndNothingOfItsTargetIsShown) {
  tree_.write("secret", "hunter2\n");
  fs::create_symlink(tree_ / "secret", tree_ / "x.pid");
  EXPECT_NE(why().find("is a symbolic link"), std::string::npos) << why();
  fs::remove(tree_ / "x.pid");
  tree_.write("x.pid", "hunter2\n");
  EXPECT_NE(why().find("contains no process id"), std::string::npos) << why();
  EXPECT_EQ(why().find("hunter2"), std::string::npos);
}

TEST_F(PidFileTest, APipeDoesNotMakeTheAgentWait) {
  ASSERT_EQ(::mkfifo((tree_ / "x.pid").c_str(), 0600), 0);
  EXPECT_NE(why().find("no regular file"), std::string::npos) << why();
}

TEST_F(PidFileTest, ProcessOneIsNobodysService) {
  tree_.write("proc/1/task/1/comm", "").write("x.pid", "1\n");
  EXPECT_NE(why().find("names process 1"), std::string::npos) << why();
}

TEST_F(PidFileTest, AFileOfAnotherUserThanTheProcessIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  tree_.write("x.pid", "30\n");
  EXPECT_EQ(why(), "accepted") << "a file of root";
  ASSERT_EQ(::chown((tree_ / "x.pid").c_str(), 1000, 1000), 0);
  EXPECT_EQ(why(), "accepted") << "a file of the process's user";
  ASSERT_EQ(::chown((tree_ / "x.pid").c_str(), 1001, 1001), 0);
  EXPECT_NE(why().find("belongs to another user"), std::string::npos) << why();
}

TEST_F(PidFileTest, AProcessThatStartedLongAfterTheFileIsAnother) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  tree_.write("x.pid", std::to_string(child) + "\n");
  const auto in_kernel = [this] {
    Roots roots = tree_.roots();
    roots.proc = "/proc";
    const auto pids = member_pids(roots, match_);
    return pids ? *pids : std::vector<pid_t>{-1};
  };
  EXPECT_EQ(in_kernel(), std::vector<pid_t>{child});
  fs::last_write_time(tree_ / "x.pid", fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_TRUE(in_kernel().empty());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(PidFileTest, LinksOfRootOnTheWayAreFollowed) {
  tree_.write("run/x.pid", "30\n");
  fs::create_directory_symlink("run", tree_ / "var-run");
  match_.pid_file = tree_ / "var-run/x.pid";
  EXPECT_EQ(why(), "accepted");
  if (::geteuid() != 0) return;
  ASSERT_EQ(::lchown((tree_ / "var-run").c_str(), 1000, 1000), 0);
  EXPECT_NE(why().find("is a symbolic link"), std::string::npos) << why();
}

}  // namespace
}  // namespace osml
