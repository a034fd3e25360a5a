// A session on a small node: who regulates memory bandwidth there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "daemon/daemon.h"
#include "daemon/session.h"
#include "fake_server.h"
#include "tree.h"

namespace osml {
namespace {

using testing_support::Tree;

// A job whose throttle stands at 100, of whatever the machine throttles in. Nobody answers at the server's address.
class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    tree_.sysfs().cgroup2("a", 10).cgroup2("b", 20);
    tree_.write("cgroup/a/cgroup.freeze", "0\n").write("cgroup/b/cgroup.freeze", "0\n");
    tree_.write("resctrl/info/L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes\n");
    tree_.write("resctrl/info/L3_MON/num_rmids", "32\n");
    config_ = tree_.config();
    config_.server.url = "http://127.0.0.1:1";
    config_.server.experiences = false;
    config_.on_exit = OnExit::Leave;
    config_.services[0].spec.kind = "lc";
    config_.services[1].spec.kind = "be";
    config_.bandwidth.regulator = true;
    config_.roots.budgets = tree_ / "state/budgets";
  }
  void groups(const std::string& schemata) {
    for (const char* group : {"osml-lc", "osml-be"}) {
      const std::string base = std::string("resctrl/") + group;
      tree_.write(base + "/schemata", schemata).write(base + "/tasks", "").write(base + "/cpus", "0\n");
      tree_.write(base + "/mode", "shareable\n").write(base + "/mon_data/mon_L3_00/mbm_total_bytes", "0\n");
    }
  }
  void software_throttle() {
    tree_.write("resctrl/schemata", "L3:0=fffff\n").write("resctrl/tasks", "");
    tree_.write("resctrl/info/L3/cbm_mask", "fffff\n").write("resctrl/info/L3/min_cbm_bits", "1\n");
    tree_.write("resctrl/info/L3/num_closids", "16\n").write("resctrl/info/last_cmd_status", "ok\n");
    groups("L3:0=fffff\n");
    tree_.write("state/budgets/be", "100\n");
  }
  // "1" where the job was stopped after it moved far more than 100 MB.
  std::string frozen_after_much_traffic() {
    auto session = Session::open(config_, {}, std::nullopt);
    if (!session) return session.error().message;
    polled_ = (*session)->poll_interval_s() > 0;
    (*session)->turn();
    (*session)->poll();
    tree_.write("resctrl/osml-be/mon_data/mon_L3_00/mbm_total_bytes", "1000000000000\n");
    (*session)->poll();
    return tree_.text("cgroup/b/cgroup.freeze");
  }

  Tree tree_;
  Config config_;
  bool polled_ = false;
};

TEST_F(SessionTest, WhereTheHardwareThrottlesItsPercentagesAreNoBudgets) {
  tree_.resctrl();
  groups("    MB:0=100\n    L3:0=fffff\n");
  EXPECT_EQ(frozen_after_much_traffic(), "0");
  EXPECT_FALSE(polled_);
}

// While the server thinks, a job that stands still goes on as its budget says.
TEST_F(SessionTest, TheRegulatorGoesOnWhileATurnWaits) {
  software_throttle();
  const testing_support::FakeServer server([this](const std::string&) {
    for (int look = 0; look < 3000 && tree_.text("cgroup/b/cgroup.freeze") != "0"; ++look) ::usleep(10000);
    return testing_support::http(503, "application/json", "{}");
  });
  config_.server.url = server.url();
  config_.server.timeout_s = 60;
  auto session = Session::open(config_, {}, std::nullopt);
  ASSERT_TRUE(session) << session.error().message;
  (*session)->turn();
  (*session)->poll();
  tree_.write("resctrl/osml-be/mon_data/mon_L3_00/mbm_total_bytes", "1000000000000\n");
  (*session)->poll();
  ASSERT_EQ(tree_.text("cgroup/b/cgroup.freeze"), "1");
  (*session)->turn();
  EXPECT_EQ(tree_.text("cgroup/b/cgroup.freeze"), "0");
}

TEST_F(SessionTest, AJobThatAKilledAgentLeftStandingGoesOnWhereTheHardwareThrottles) {
  tree_.resctrl();
  groups("    MB:0=100\n    L3:0=fffff\n");
  tree_.write("cgroup/b/cgroup.freeze", "1\n");
  tree_.write("state/frozen/be", (tree_ / "cgroup/b/cgroup.freeze").string() + "\n");
  ASSERT_TRUE(Session::open(config_, {}, std::nullopt));
  EXPECT_EQ(tree_.text("cgroup/b/cgroup.freeze"), "0");
}

TEST_F(SessionTest, AJobThatAKilledAgentLeftStandingGoesOnWhereTheRegulatorIsOffByNow) {
  software_throttle();
  config_.bandwidth.regulator = false;
  config_.roots.budgets.clear();
  tree_.write("cgroup/b/cgroup.freeze", "1\n");
  tree_.write("state/frozen/be", (tree_ / "cgroup/b/cgroup.freeze").string() + "\n");
  ASSERT_TRUE(Session::open(config_, {}, std::nullopt));
  EXPECT_EQ(tree_.text("cgroup/b/cgroup.freeze"), "0");
}

// On the way back from a configuration that cannot be used, nothing is read that may have gone since.
TEST_F(SessionTest, TheWayBackNeedsNoFileThatHasGone) {
  tree_.resctrl();
  groups("    MB:0=100\n    L3:0=fffff\n");
  tree_.write("token", "secret\n").write("curve.json", R"({"schema": "osml/mba-curve/v1", "unit": "percent", "points": [
      {"setting": 10, "gbps": 5}, {"setting": 100, "gbps": 24}]})");
  fs::permissions(tree_ / "token", fs::perms(0600));
  config_.bandwidth.regulator = false;
  config_.roots.budgets.clear();
  config_.bandwidth.curve = tree_ / "curve.json";
  config_.server.token_file = tree_ / "token";
  ASSERT_TRUE(Session::check_files(config_));
  auto session = Session::open(config_, {}, std::nullopt);
  ASSERT_TRUE(session) << session.error().message;
  const SessionFiles files = (*session)->files();
  EXPECT_EQ(files.token, "secret");
  session->reset();

  fs::permissions(tree_ / "token", fs::perms(0644));
  EXPECT_FALSE(Session::check_files(config_));
  fs::remove(tree_ / "token");
  fs::remove(tree_ / "curve.json");
  session = Session::open(config_, {.known = files}, std::nullopt);
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ((*session)->actuator().platform().mba->unit, "mbps");
}

TEST_F(SessionTest, ACurveThatCannotBeUsedIsFoundBeforeTheMachineIsLetGo) {
  tree_.resctrl();
  tree_.write("curve.json", "{}");
  config_.bandwidth.curve = tree_ / "curve.json";
  EXPECT_FALSE(Session::check_files(config_));
  fs::remove_all(tree_ / "resctrl");
  EXPECT_TRUE(Session::check_files(config_)) << "nothing to throttle, so nobody reads it";
}

TEST_F(SessionTest, WhatAReloadCannotUseIsFoundBeforeTheMachineIsLetGo) {
  tree_.resctrl();
  Config other = config_;
  other.cpu.cpus = "4096";
  EXPECT_FALSE(Session::check_files(other));
  EXPECT_FALSE(Session::check_files(other, true));
  other = config_;
  other.services.at(0).latency.emplace();
  other.services.at(0).latency->datagram = tree_ / "sockets/lc.sock";
  EXPECT_FALSE(Session::check_files(other)) << "the directory is missing";
  fs::create_directory(tree_ / "sockets");
  fs::permissions(tree_ / "sockets", fs::perms(0755));
  EXPECT_TRUE(Session::check_files(other));
  EXPECT_FALSE(fs::exists(tree_ / "sockets/lc.sock")) << "a check makes nothing";
}

TEST_F(SessionTest, AStateDirectoryThatAnotherAgentUsesIsFoundBeforeTheMachineIsLetGo) {
  tree_.resctrl();
  EXPECT_TRUE(Actuator::check_lock(config_));
  EXPECT_TRUE(Actuator::check_lock(config_)) << "it lets go";
  auto session = Session::open(config_, {}, std::nullopt);
  ASSERT_TRUE(session) << session.error().message;
  const Status taken = Actuator::check_lock(config_);
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().message.find("another osml-agent uses state_dir"), std::string::npos);
}

// Else it would be the end of both sessions, the new one and the one before.
TEST_F(SessionTest, AStateDirectoryOrAJournalThatCannotBeUsedIsFoundBeforeTheMachineIsLetGo) {
  tree_.resctrl();
  EXPECT_TRUE(Session::check_files(config_));
  EXPECT_FALSE(fs::exists(config_.state_dir)) << "a check makes nothing";
  auto session = Session::open(config_, {}, std::nullopt);
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_TRUE(Session::check_files(config_));
  fs::permissions(config_.state_dir, fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(Session::check_files(config_));
  EXPECT_TRUE(Session::check_files(config_, true)) << "a dry run takes nothing";
  fs::permissions(config_.state_dir, fs::perms::others_write, fs::perm_options::remove);
  tree_.write("state/journal.json", "{");
  EXPECT_FALSE(Session::check_files(config_));
  tree_.write("state/journal.json", R"({"version": 2, "originals": [], "pending": [], "applied": [], "boot_id": ""})");
  EXPECT_TRUE(Session::check_files(config_));
  fs::permissions(tree_ / "state/journal.json", fs::perms(0666));
  EXPECT_FALSE(Session::check_files(config_));
}

// Alerts go by it.
TEST_F(SessionTest, AnAgentThatEndsByAnErrorSaysThatItIsDown) {
  tree_.resctrl();
  config_.metrics.textfile = tree_ / "osml.prom";
  sigset_t reload{};
  sigemptyset(&reload);
  sigaddset(&reload, SIGHUP);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &reload, nullptr), 0);
  ::raise(SIGHUP);
  RunOptions options;
  int loads = 0;
  options.load = [&]() -> Result<Config> {
    // The session has the file open; the next one, and the way back, cannot have it.
    if (++loads == 2) {
      fs::remove(config_.state_dir / "lock");
      fs::create_symlink("elsewhere", config_.state_dir / "lock");
    }
    return config_;
  };
  EXPECT_FALSE(run_daemon(options));
  EXPECT_EQ(loads, 2);
  EXPECT_NE(tree_.text("osml.prom").find("osml_agent_up{node=\"n\"} 0"), std::string::npos);
}

TEST_F(SessionTest, WhereNothingThrottlesTheRegulatorDoes) {
  software_throttle();
  EXPECT_EQ(frozen_after_much_traffic(), "1");
  EXPECT_TRUE(polled_);
}

}  // namespace
}  // namespace osml
