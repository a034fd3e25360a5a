// Restoring never forgets what it has not restored, and writes to nobody else.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "apply/actuator.h"
#include "base/lock.h"
#include "cli/commands.h"
#include "resctrl/knobs.h"
#include "tree.h"

namespace osml {
namespace {

using testing_support::Tree;

class ActuatorRestoreTest : public testing::Test {
 protected:
  ActuatorRestoreTest() {
    tree_.sysfs().cgroup2("a", 10).cgroup2("b", 20).write("proc/sys/kernel/random/boot_id", "first\n");
    config_ = tree_.config();
    decision_.node = "n";
    decision_.partition.regions = {{{"lc"}, 5, 0}, {{"be"}, 3, 0}};
    decision_.assignments = {{"lc", "0-4", {}, {}, {}, {}}, {"be", "5-7", {}, {}, {}, {}}};
  }
  void apply_and_leave() {
    auto actuator = Actuator::open(config_);
    ASSERT_TRUE(actuator) << actuator.error().message;
    const Outcome outcome = actuator->apply(decision_);
    ASSERT_EQ(outcome.status, OutcomeStatus::Applied) << outcome.message;
  }
  [[nodiscard]] std::string cpus(const std::string& group) const {
    return tree_.text("cgroup/" + group + "/cpuset.cpus");
  }
  [[nodiscard]] nlohmann::json journal() const { return nlohmann::json::parse(tree_.text("state/journal.json")); }
  // The same path, another directory: `fresh` exists before the old one goes, so their numbers differ.
  void start_anew(const std::string& group, int pid) {
    tree_.cgroup2("fresh", pid);
    fs::remove_all(tree_ / ("cgroup/" + group));
    fs::rename(tree_ / "cgroup/fresh", tree_ / ("cgroup/" + group));
  }

  Tree tree_;
  Config config_;
  Decision decision_;
};

TEST_F(ActuatorRestoreTest, AChangedMatchRestoresTheFormerCgroupAndTheNewOneAtTheEnd) {
  apply_and_leave();
  tree_.cgroup2("c", 30).write("cgroup/c/cpuset.cpus", "1\n");
  config_.services[0].match.cgroup = "c";
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator);
  EXPECT_EQ(cpus("a"), "");
  EXPECT_NE(actuator->healed().find("restored 1 settings of services"), std::string::npos) << actuator->healed();
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(cpus("c"), "0-4");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus("c"), "1");
}

TEST_F(ActuatorRestoreTest, AServiceThatLeftTheConfigurationGetsItsCpusBack) {
  apply_and_leave();
  config_.services.pop_back();
  ASSERT_TRUE(Actuator::open(config_));
  EXPECT_EQ(cpus("a"), "0-4") << "who stays keeps what it has";
  EXPECT_EQ(cpus("b"), "");
}

TEST_F(ActuatorRestoreTest, AnotherBackendHasOriginalsOfItsOwn) {
  apply_and_leave();
  fs::remove(tree_ / "cgroup/a/cpuset.cpus");  // the controller was dropped
  tree_.write("cgroup/cpuset/a/cpuset.cpus", "0-6\n").write("cgroup/cpuset/a/tasks", "10\n");
  apply_and_leave();
  EXPECT_EQ(tree_.text("cgroup/cpuset/a/cpuset.cpus"), "0-4");
  ASSERT_TRUE(Actuator::open(config_)->restore());
  EXPECT_EQ(tree_.text("cgroup/cpuset/a/cpuset.cpus"), "0-6");
}

TEST_F(ActuatorRestoreTest, AfterARebootWhatWasFoundBeforeIsDroppedAndSaid) {
  apply_and_leave();
  tree_.write("proc/sys/kernel/random/boot_id", "second\n").write("cgroup/a/cpuset.cpus", "3\n");  // the operator's
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator);
  EXPECT_NE(actuator->healed().find("dropped 2 saved settings"), std::string::npos) << actuator->healed();
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus("a"), "3");
}

TEST_F(ActuatorRestoreTest, ACgroupThatWasMadeAnewIsNotGivenTheOldOnesSetting) {
  tree_.write("cgroup/a/cpuset.cpus", "0-1\n");
  apply_and_leave();
  start_anew("a", 11);
  ASSERT_TRUE(Actuator::open(config_)->restore());
  EXPECT_EQ(cpus("a"), "");
  EXPECT_TRUE(journal()["originals"].empty());
}

TEST_F(ActuatorRestoreTest, RestartsOfAServiceDoNotMakeTheJournalGrow) {
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  for (int pid = 100; pid < 110; ++pid) {
    start_anew("a", pid);
    ASSERT_TRUE(actuator->reconcile());
    EXPECT_EQ(cpus("a"), "0-4");
    EXPECT_EQ(journal()["originals"].size(), 2U) << pid;
  }
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus("a"), "");
}

TEST_F(ActuatorRestoreTest, ALongJournalIsReadAgain) {
  apply_and_leave();
  tree_.write("state/journal.json", tree_.text("state/journal.json") + std::string(std::size_t{2} << 20U, ' '));
  ASSERT_TRUE(Actuator::open(config_)->restore());
  EXPECT_EQ(cpus("a"), "");
}

// The journal before the steps is shorter than the one after them, so that a limit stops only the second.
TEST_F(ActuatorRestoreTest, AJournalThatCouldNotBeSavedIsSavedInTheNextInterval) {
  tree_.write("cgroup/b/cpuset.cpus", "5-7\n");
  apply_and_leave();
  const auto size = fs::file_size(tree_ / "state/journal.json");
  ASSERT_TRUE(Actuator::open(config_)->restore());
  auto actuator = Actuator::open(config_);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{size - 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const Outcome outcome = actuator->apply(decision_);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)std::signal(SIGXFSZ, handler);
  EXPECT_EQ(outcome.status, OutcomeStatus::Applied) << outcome.message;
  EXPECT_NE(outcome.message.find("until the journal is saved"), std::string::npos) << outcome.message;
  EXPECT_EQ(journal()["pending"].size(), 1U);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_TRUE(journal()["pending"].empty());
  EXPECT_EQ(journal()["applied"].size(), 2U);
}

// The server may be away, so no decision makes it again.
TEST_F(ActuatorRestoreTest, ACacheGroupThatSomebodyRemovedIsMadeAgain) {
  const auto make_files = [this] {
    for (const char* group : {"osml-lc", "osml-be"}) {
      const std::string base = std::string("resctrl/") + group;
      if (fs::exists(tree_ / (base + "/schemata"))) continue;
      tree_.write(base + "/schemata", "    L3:0=fffff\n").write(base + "/tasks", "");
    }
  };
  tree_.resctrl().write("resctrl/schemata", "    L3:0=fffff\n");
  for (const char* without : {"resctrl/info/MB", "proc/10", "proc/20"}) fs::remove_all(tree_ / without);
  make_files();
  decision_.partition.regions = {{{"lc"}, 5, 10}, {{"be"}, 3, 10}};
  decision_.assignments[0].way_mask = 0x3ff;
  decision_.assignments[1].way_mask = 0xffc00;
  auto actuator = Actuator::open(config_);
  const Outcome outcome = actuator->apply(decision_);
  ASSERT_EQ(outcome.status, OutcomeStatus::Applied) << outcome.message;
  const std::string schemata = tree_.text("resctrl/osml-lc/schemata");
  fs::remove_all(tree_ / "resctrl/osml-lc");
  EXPECT_FALSE(actuator->reconcile()) << "nobody makes the group's files here";
  EXPECT_TRUE(fs::is_directory(tree_ / "resctrl/osml-lc"));
  make_files();
  EXPECT_TRUE(actuator->reconcile());
  EXPECT_EQ(tree_.text("resctrl/osml-lc/schemata"), schemata);
}

TEST_F(ActuatorRestoreTest, AWrongConfigurationKeepsNothingInForce) {
  cli::Options options;
  options.config = tree_ / "agent.yaml";
  tree_.write("agent.yaml", "node: [\n");
  std::ostringstream out;
  ::setenv("STATE_DIRECTORY", (tree_ / "state").c_str(), 1);
  EXPECT_EQ(cli::restore(options, true, out).error().kind, ErrorKind::Input) << "there is no journal yet";
  config_.on_exit = OnExit::Leave;
  apply_and_leave();
  EXPECT_TRUE(cli::restore(options, true, out));
  EXPECT_EQ(cpus("a"), "0-4") << "on_exit says so";
  const Status back = cli::restore(options, false, out);
  ::unsetenv("STATE_DIRECTORY");
  EXPECT_TRUE(back) << back.error().message;
  EXPECT_EQ(cpus("a"), "");
  apply_and_leave();
  options.state_dir = tree_ / "state";
  EXPECT_TRUE(cli::restore(options, false, out));
  EXPECT_EQ(cpus("b"), "");
}

TEST_F(ActuatorRestoreTest, AConfigurationThatCannotBeUsedHereKeepsNothingInForce) {
  apply_and_leave();
  cli::Options options;
  options.config = tree_ / "agent.yaml";
  options.cgroup_root = tree_.roots().cgroup;
  options.proc_root = tree_.roots().proc;
  options.sysfs_root = tree_.roots().sysfs;
  options.resctrl_root = tree_.roots().resctrl;
  tree_.write("agent.yaml", "node: n\nserver: {url: 'http://127.0.0.1:1'}\nstate_dir: " + (tree_ / "state").string() +
                                "\ncpu: {cpus: '90-99'}\nservices:\n  - {name: be, class: be, match: {cgroup: b}}\n");
  ASSERT_TRUE(cli::load(options)) << cli::load(options).error().message;
  std::ostringstream out;
  const Status back = cli::restore(options, false, out);
  EXPECT_TRUE(back) << back.error().message;
  EXPECT_EQ(cpus("a"), "");
  EXPECT_EQ(cpus("b"), "");
}

TEST_F(ActuatorRestoreTest, WhatNobodyCanLookAtStaysInTheJournal) {
  apply_and_leave();
  fs::rename(tree_ / "cgroup", tree_ / "elsewhere");  // another namespace, without the mount
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator);
  const Status back = actuator->restore();
  ASSERT_FALSE(back);
  EXPECT_NE(back.error().message.find("no cgroups are mounted at"), std::string::npos) << back.error().message;
  EXPECT_EQ(journal()["originals"].size(), 2U);
  fs::rename(tree_ / "elsewhere", tree_ / "cgroup");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus("a"), "");
  EXPECT_TRUE(journal()["originals"].empty());
}

TEST_F(ActuatorRestoreTest, AnErrorOfResctrlKeepsItsEntries) {
  tree_.resctrl().write("state/journal.json", R"({"version": 1, "pending": [], "originals": [
      {"service": "lc", "knob": "group", "backend": "resctrl", "match": {"cgroup": "a"}, "snapshot": "absent"}]})");
  fs::create_directories(tree_ / "resctrl/osml-lc");
  fs::permissions(tree_ / "state", fs::perms::owner_all);
  const auto spoil = [&](const char* file) {
    fs::rename(tree_ / file, tree_ / "kept");
    fs::create_directory(tree_ / file);  // reads fail with something else than "not there"
  };
  const auto mend = [&](const char* file) {
    fs::remove(tree_ / file);
    fs::rename(tree_ / "kept", tree_ / file);
  };
  for (const char* file : {"resctrl/schemata", "resctrl/info/L3/cbm_mask"}) {
    spoil(file);
    const Status back = Actuator::open(config_)->restore();
    mend(file);
    EXPECT_FALSE(back) << file;
    EXPECT_EQ(journal()["originals"].size(), 1U) << file;
  }
  fs::rename(tree_ / "resctrl", tree_ / "unmounted");
  EXPECT_FALSE(Actuator::open(config_)->restore());
  fs::rename(tree_ / "unmounted", tree_ / "resctrl");
  ASSERT_TRUE(Actuator::open(config_)->restore());
  EXPECT_FALSE(osml::exists(tree_ / "resctrl/osml-lc"));
}

TEST_F(ActuatorRestoreTest, WhatWasGivenBackIsNotUndoneLater) {
  tree_.resctrl().write("state/journal.json", R"({"version": 1, "pending": [
    {"service": "gone", "knob": "cpus", "backend": "cgroup2", "match": {"cgroup": "c"}, "snapshot": "0-3"}],
    "originals": [
    {"service": "gone", "knob": "cpus", "backend": "cgroup2", "match": {"cgroup": "c"}, "snapshot": "0-6"}]})");
  tree_.cgroup2("c", 30).write("cgroup/c/cpuset.cpus", "1\n");
  fs::permissions(tree_ / "state", fs::perms::owner_all);
  // Held for as long as the agent waits to undo, and not for as long as it waits to give back.
  auto lock = lock_exclusive(tree_ / "resctrl", std::chrono::milliseconds(0));
  ASSERT_TRUE(lock) << lock.error().message;
  std::thread other([held = std::move(*lock)]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    held = Fd();
  });
  auto actuator = Actuator::open(config_);
  other.join();
  if (!actuator) actuator = Actuator::open(config_);  // on a slow machine
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(cpus("c"), "0-6");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus("c"), "0-6") << "0-3 is of a transaction before";
  EXPECT_TRUE(journal()["pending"].empty());
}

TEST_F(ActuatorRestoreTest, WhoHoldsTheResctrlTreeKeepsNoCpusInForce) {
  apply_and_leave();
  tree_.resctrl();
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(cpus("a"), "0-4");
  const auto lock = lock_exclusive(tree_ / "resctrl", std::chrono::milliseconds(0));
  ASSERT_TRUE(lock) << lock.error().message;
  EXPECT_TRUE(actuator->restore()) << "nothing of resctrl was set";
  EXPECT_EQ(cpus("a"), "");
  EXPECT_TRUE(journal()["originals"].empty());
}

TEST_F(ActuatorRestoreTest, ABackendThatTakesOverRestoresTheOtherOne) {
  fs::remove(tree_ / "cgroup/a/cpuset.cpus");
  tree_.write("cgroup/cpuset/a/cpuset.cpus", "0-7\n").write("cgroup/cpuset/a/cgroup.procs", "10\n");
  tree_.write("cgroup/cpuset/a/tasks", "10\n");
  auto actuator = Actuator::open(config_);
  ASSERT_TRUE(actuator) << actuator.error().message;
  const Outcome outcome = actuator->apply(decision_);
  ASSERT_EQ(outcome.status, OutcomeStatus::Applied) << outcome.message;
  ASSERT_EQ(tree_.text("cgroup/cpuset/a/cpuset.cpus"), "0-4");
  tree_.write("cgroup/a/cpuset.cpus", "\n");  // systemctl set-property a AllowedCPUs=...
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(tree_.text("cgroup/cpuset/a/cpuset.cpus"), "0-7");
  EXPECT_EQ(cpus("a"), "0-4") << "what was decided holds";
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus("a"), "");
}

TEST_F(ActuatorRestoreTest, WhatCannotBeUndoneKeepsNobodyElse) {
  const auto interrupt = [this] {
    tree_.resctrl().write("state/journal.json", R"({"version": 1, "pending": [
      {"service": "lc", "knob": "group", "backend": "resctrl", "match": {"cgroup": "a"}, "snapshot": "absent"}],
      "originals": [
      {"service": "be", "knob": "cpus", "backend": "cgroup2", "match": {"cgroup": "b"}, "snapshot": "0-6"}]})");
    fs::permissions(tree_ / "state", fs::perms::owner_all);
    fs::create_directories(tree_ / "resctrl/osml-lc");
    fs::remove(tree_ / "resctrl/schemata");
    fs::create_directory(tree_ / "resctrl/schemata");  // reads fail with something else than "not there"
  };
  const auto mend = [this] {
    fs::remove(tree_ / "resctrl/schemata");
    tree_.resctrl();
  };
  interrupt();
  {
    auto actuator = Actuator::open(config_);
    ASSERT_TRUE(actuator) << actuator.error().message;
    EXPECT_NE(actuator->healed().find("cannot undo the interrupted transaction"), std::string::npos);
    EXPECT_FALSE(actuator->reconcile());
    EXPECT_EQ(journal()["pending"].size(), 1U);
    EXPECT_FALSE(actuator->restore());
    EXPECT_EQ(cpus("b"), "0-6");
    EXPECT_EQ(journal()["originals"].size(), 1U) << "the group's entry is kept for another try";
    mend();
    ASSERT_TRUE(actuator->reconcile());
    ASSERT_TRUE(actuator->restore());
    EXPECT_FALSE(osml::exists(tree_ / "resctrl/osml-lc"));
  }
  interrupt();
  auto actuator = Actuator::open(config_);
  mend();
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_FALSE(osml::exists(tree_ / "resctrl/osml-lc")) << "undone as soon as it can be";
  EXPECT_TRUE(journal()["pending"].empty());
  actuator = Error{ErrorKind::Busy, "", 0};
  interrupt();
  actuator = Actuator::open(config_);
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied) << "of CPUs alone";
  EXPECT_EQ(cpus("a"), "0-4");
  EXPECT_TRUE(journal()["pending"].empty());
  EXPECT_EQ(journal()["originals"].size(), 3U);
}

TEST_F(ActuatorRestoreTest, AServiceThatCannotBeLookedAtIsNotAbsent) {
  fs::remove(tree_ / "cgroup/a/cgroup.procs");
  fs::create_symlink("cgroup.procs", tree_ / "cgroup/a/cgroup.procs");  // ELOOP
  auto actuator = Actuator::open(config_);
  const Outcome outcome = actuator->apply(decision_);
  EXPECT_EQ(outcome.status, OutcomeStatus::Refused);
  EXPECT_NE(outcome.message.find("cannot look at"), std::string::npos) << outcome.message;
}

TEST_F(ActuatorRestoreTest, WhatADecisionLeavesOutGoesBackToWhatWasFound) {
  tree_.write("cgroup/a/cpu.weight", "77\n");
  decision_.assignments[0].cpu_quota = 2.0;
  decision_.assignments[0].cpu_weight = 500;
  auto actuator = Actuator::open(config_);
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(tree_.text("cgroup/a/cpu.max"), "20000 10000");
  decision_.assignments[0] = {"lc", "0-4", {}, {}, {}, {}};
  const Outcome dry = actuator->apply(decision_, true);
  EXPECT_EQ(dry.message, "lc: cpu_quota 2 -> as found\nlc: cpu_weight 500 -> as found");
  ASSERT_EQ(actuator->apply(decision_).status, OutcomeStatus::Applied);
  EXPECT_EQ(tree_.text("cgroup/a/cpu.max"), "max 100000");
  EXPECT_EQ(tree_.text("cgroup/a/cpu.weight"), "77");
  EXPECT_EQ(actuator->apply(decision_).status, OutcomeStatus::Unchanged);
  EXPECT_FALSE((*actuator->read())[0].cpu_weight);
  EXPECT_EQ(journal()["originals"].size(), 2U) << "of the CPU sets only";
}

TEST_F(ActuatorRestoreTest, AServiceThatIsStartedAnewGetsItsCpusAlsoFromARestartedAgent) {
  apply_and_leave();
  auto actuator = Actuator::open(config_);
  start_anew("a", 11);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus("a"), "0-4");
  fs::remove_all(tree_ / "cgroup/b");
  ASSERT_TRUE(actuator->reconcile());
  tree_.cgroup2("b", 21).write("cgroup/b/cpuset.cpus", "0-6\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus("b"), "5-7");
  tree_.write("cgroup/b/cpuset.cpus", "0\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus("b"), "0") << "what another program changes is the next decision's matter";
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus("a"), "");
  EXPECT_EQ(cpus("b"), "0-6");
}

// Threads of service "lc" in plain files of groups; a move replaces a file's text.
class TasksRestoreTest : public testing::Test {
 protected:
  TasksRestoreTest() {
    tree_.cgroup2("a", 10).resctrl().write("resctrl/osml-lc/tasks", "").write("resctrl/osml-lc/schemata", "L3:0=f\n");
    tree_.write("resctrl/p/tasks", "").write("resctrl/p/mon_groups/m/tasks", "");
    for (const int tid : {10, 11}) tree_.write("proc/" + std::to_string(tid) + "/status", "Tgid:\t10\n");
    match_.cgroup = "a";
  }
  Status restore(const std::string& snapshot) {
    const auto info = resctrl::read_info(tree_.roots());
    return resctrl::TasksKnob({tree_.roots(), tree_ / "resctrl/osml-lc", match_, *info}).restore(snapshot);
  }
  Tree tree_;
  Match match_;
};

TEST_F(TasksRestoreTest, AThreadBetweenTheTwoMovesFindsItsMonitoringGroup) {
  tree_.write("resctrl/p/tasks", "11\n");  // killed here
  ASSERT_TRUE(restore("p=11\np/mon_groups/m=11\n"));
  EXPECT_EQ(tree_.text("resctrl/p/mon_groups/m/tasks"), "11");
}

TEST_F(TasksRestoreTest, OnlyTheMainThreadWasInAGroup) {
  tree_.write("resctrl/osml-lc/tasks", "10\n11\n");
  ASSERT_TRUE(restore("p=10\n.=11\n"));
  EXPECT_EQ(tree_.text("resctrl/p/tasks"), "10");
  EXPECT_EQ(tree_.text("resctrl/tasks"), "11");
}

TEST_F(TasksRestoreTest, AThreadBornSinceGoesWhereAllOthersOfItsProcessWere) {
  tree_.write("resctrl/osml-lc/tasks", "11\n");
  ASSERT_TRUE(restore("p=10\n"));
  EXPECT_EQ(tree_.text("resctrl/p/tasks"), "11");
}

TEST_F(TasksRestoreTest, AGroupOutsideOfResctrlIsRefused) {
  tree_.write("resctrl/osml-lc/tasks", "10\n").write("outside/tasks", "");
  EXPECT_FALSE(restore("../outside=10\n"));
  EXPECT_EQ(tree_.text("outside/tasks"), "");
}

}  // namespace
}  // namespace osml
