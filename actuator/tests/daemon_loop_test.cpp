// The loop, turned by hand: a fake machine, a fake server, node time as the test says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/files.h"
#include "daemon/loop.h"
#include "scratch_tree.h"

namespace osml {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::ScratchTree;

class FakeMachine : public Machine {
 public:
  const Platform& platform() const override { return platform_; }
  const std::map<std::string, std::string>& missing() const override { return missing_; }
  InterruptReport interrupts() const override { return interrupts_; }
  Result<std::vector<Assignment>> read() override { return state; }
  Outcome apply(const Decision& decision, bool /*dry_run*/, const std::vector<Assignment>& held) override {
    began_at.push_back(held);
    applied.push_back(decision);
    if (status == OutcomeStatus::Applied) state = decision.assignments;
    return {decision.seq, status, "", 1.0};
  }
  Status reconcile() override {
    ++reconciled;
    return done();
  }
  const std::vector<Place>& places() const override { return places_; }
  Status look() override {
    ++looked;
    return done();
  }
  Status restore() override {
    ++restored;
    for (Assignment& one : state) one.mba.reset();
    return unrestored ? Status(Error{ErrorKind::Busy, "a write failed", 0}) : done();
  }
  Decision even_decision() const override {
    Decision even;
    even.policy = "fallback even";
    for (const Assignment& one : state) even.assignments.push_back({one.service, "0-1", {}, {}, {}, {}});
    return even;
  }

  std::vector<Assignment> state = {Assignment{"moses", {}, {}, {}, {}, {}}};
  std::vector<Decision> applied;
  std::vector<std::vector<Assignment>> began_at;  // of dry runs
  OutcomeStatus status = OutcomeStatus::Applied;
  int reconciled = 0;
  int restored = 0;
  bool unrestored = false;
  int looked = 0;
  std::vector<Place> places_;
  InterruptReport interrupts_;
  Platform platform_;

 private:
  std::map<std::string, std::string> missing_ = {{"llc_ways", "no resctrl"}};
};

class FakeServer : public DecisionSource {
 public:
  Answer ask(const Observation& observation) override {
    seen.push_back(observation);
    if (error) return *error;
    Decision decision;
    decision.node = observation.node;
    decision.seq = observation.seq;
    decision.policy = "arq";
    decision.partition.regions = {{{"moses"}, 4, 0}};
    decision.assignments = {Assignment{"moses", "0-3", {}, {}, {}, {}}};
    decision.reasons = {{"p99 12.4 ms > 10 ms", "moses"}};
    decision.infeasible_services = infeasible_services;
    if (!infeasible_services.empty()) decision.infeasible = "too little";
    decision.policy_state = "state of " + std::to_string(observation.seq);
    return decision;
  }

  std::vector<Observation> seen;
  std::vector<std::string> infeasible_services;
  std::optional<AskError> error;
};

class LoopTest : public testing::Test {
 protected:
  LoopTest() {
    config_.node = "demo";
    config_.hold_s = 5;
    config_.roots.proc = tree_ / "proc";
    ServiceConfig moses;
    moses.spec.name = "moses";
    moses.match.pids = {4711};
    config_.services = {moses};
    build();
  }
  void build(bool dry_run = false) {
    sensors_.emplace(config_, CpuSet{0}, [](const std::string&) { return std::string(); });
    loop_.emplace(config_, machine_, server_, *sensors_, audit_, dry_run, 0.0);
  }
  void turn(double now_s) {
    loop_->turn([now_s] { return now_s; });
  }
  std::string audit_text() {
    const auto text = read_text(tree_ / "audit.jsonl");
    return text ? *text : "";
  }

  ScratchTree tree_;
  Config config_;
  FakeMachine machine_;
  FakeServer server_;
  Audit audit_{tree_.root()};
  std::optional<Sensors> sensors_;
  std::optional<Loop> loop_;
};

TEST_F(LoopTest, WhereInterruptsGoIsToldOnceAndReported) {
  const auto log_of = [this](bool dry_run) {
    build(dry_run);
    std::ostringstream log;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
    for (const char* plan : {"3 on CPUs 4-7", "3 on CPUs 4-7", ""}) {
      machine_.interrupts_ = {3, 1, 0, plan};
      turn(1.0);
    }
    spdlog::set_default_logger(before);
    return log.str();
  };
  const std::string told = log_of(false);
  const std::string line = "interrupts are kept off the CPUs of services: ";
  const std::size_t first = told.find(line + "3 on CPUs 4-7\n");
  ASSERT_NE(first, std::string::npos) << told;
  EXPECT_EQ(told.find("3 on CPUs 4-7", first + line.size() + 1), std::string::npos) << "once";
  EXPECT_THAT(told, HasSubstr(line + "none, all stay as found\n"));
  EXPECT_THAT(log_of(true), HasSubstr("interrupts would be moved: 3 on CPUs 4-7\n"));
  EXPECT_EQ(loop_->report().interrupts.kept_away, 3U);
  EXPECT_EQ(loop_->report().interrupts.fixed, 1U);
}

TEST_F(LoopTest, ObservationCarriesWhatTheLastTurnLeft) {
  turn(1.0);
  turn(2.5);
  ASSERT_EQ(server_.seen.size(), 2U);
  const Observation& first = server_.seen[0];
  EXPECT_EQ(first.seq, 1U);
  EXPECT_FALSE(first.partition);
  EXPECT_FALSE(first.outcome);
  EXPECT_EQ(first.missing.at("llc_ways"), "no resctrl");
  const Observation& second = server_.seen[1];
  EXPECT_EQ(second.seq, 2U);
  EXPECT_DOUBLE_EQ(second.time_s, 2.5);
  EXPECT_DOUBLE_EQ(second.interval_s, 1.5);
  ASSERT_TRUE(second.partition);
  EXPECT_EQ(second.partition->regions[0].cores, 4U);
  EXPECT_EQ(second.outcome->seq, 1U);
  EXPECT_EQ(second.outcome->status, OutcomeStatus::Applied);
  EXPECT_EQ(second.policy_state, "state of 1");
  EXPECT_EQ(second.assignments[0].cpus, "0-3");
  EXPECT_EQ(machine_.reconciled, 2);
}

// The kubelet may be waited for; what is counted meanwhile belongs to the interval that ends then.
TEST_F(LoopTest, TheMachineIsPutRightBeforeTheTimeOfTheTurn) {
  turn(1.0);
  loop_->turn([this] {
    EXPECT_EQ(machine_.reconciled, 2);
    EXPECT_EQ(server_.seen.size(), 1U);
    return 2.5;
  });
  EXPECT_EQ(machine_.reconciled, 2);
  ASSERT_EQ(server_.seen.size(), 2U);
  EXPECT_DOUBLE_EQ(server_.seen[1].time_s, 2.5);
  EXPECT_DOUBLE_EQ(server_.seen[1].interval_s, 1.5);
}

TEST_F(LoopTest, TheReportSaysWhoMeetsItsTargetAndWhomTheNodeCannotServe) {
  ServiceConfig& moses = config_.services[0];
  moses.spec.target_ms = 10;
  moses.spec.percentile = "p95";
  moses.latency.emplace().file = tree_ / "latency";
  machine_.places_.emplace_back().service = "moses";
  build();
  const auto seen = [&](double now_s, const std::string& line) {
    tree_.append("latency", line);
    turn(now_s);
    return loop_->report();
  };
  tree_.write("latency", "");
  EXPECT_THAT(seen(1, "").unmeasured, ElementsAre("moses"));
  EXPECT_THAT(seen(2, "{\"p95_ms\": 9, \"p99_ms\": 20, \"samples\": 9}\n").met, ElementsAre("moses"));
  server_.infeasible_services = {"moses", "a service of another node"};
  const TurnReport missed = seen(3, "{\"p95_ms\": 11, \"samples\": 9}\n");
  EXPECT_THAT(missed.missed, ElementsAre("moses"));
  EXPECT_THAT(missed.met, IsEmpty());
  EXPECT_TRUE(missed.infeasible);
  EXPECT_EQ(missed.infeasible_words, "too little");
  EXPECT_THAT(missed.infeasible_services, ElementsAre("moses"));
}

TEST_F(LoopTest, ATargetFarFromTheFirstLatencyIsToldOnce) {
  ServiceConfig& moses = config_.services[0];
  moses.latency.emplace().file = tree_ / "latency";
  machine_.places_.emplace_back().service = "moses";
  const auto log_of = [this, &moses](double target_ms, const std::vector<double>& latencies_ms) {
    moses.spec.target_ms = target_ms;
    tree_.write("latency", "");
    build();
    std::ostringstream log;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
    double now_s = 0;
    for (const double latency_ms : latencies_ms) {
      tree_.append("latency", "{\"p99_ms\": " + std::to_string(latency_ms) + ", \"samples\": 9}\n");
      turn(++now_s);
    }
    spdlog::set_default_logger(before);
    return log.str();
  };
  const std::string why = "target_ms counts milliseconds";
  const std::string low = log_of(0.005, {0.44, 0.44});
  EXPECT_THAT(low, HasSubstr("service 'moses': p99 is 0.44 ms, far from its target of 0.005 ms; " + why));
  EXPECT_EQ(low.find(why), low.rfind(why)) << low;
  EXPECT_THAT(log_of(5000, {0.44}), HasSubstr("far from its target of 5000 ms"));
  EXPECT_THAT(log_of(5, {0.44, 400, 0.01}), testing::Not(HasSubstr(why)));
}

TEST_F(LoopTest, PartitionIsUnknownWhenSomebodyElseChangedTheMachine) {
  turn(1);
  machine_.state[0].cpus = "7";
  turn(2);
  EXPECT_FALSE(server_.seen[1].partition);
  EXPECT_EQ(server_.seen[1].assignments[0].cpus, "7");
  turn(3);
  EXPECT_TRUE(server_.seen[2].partition);
}

TEST_F(LoopTest, WhatCountsInAnotherCoreUnitIsNotSent) {
  turn(1);
  turn(2);
  ASSERT_TRUE(server_.seen[1].partition);
  machine_.platform_.core_quantum = 0.1;
  turn(3);
  EXPECT_FALSE(server_.seen[2].partition);
  EXPECT_FALSE(server_.seen[2].policy_state);
  EXPECT_FALSE(loop_->report().changed_by_others);
  turn(4);
  EXPECT_TRUE(server_.seen[3].partition);
  EXPECT_TRUE(server_.seen[3].policy_state);
  // A reload, also one that comes while the server is silent.
  server_.error = AskError{AskFailure::Unreachable, "the server is away", std::nullopt};
  turn(5);
  const Memory memory = loop_->memory();
  build();
  loop_->remember(memory, 5);
  server_.error.reset();
  machine_.platform_.core_quantum = 1;
  turn(6);
  EXPECT_FALSE(server_.seen[5].partition);
  EXPECT_FALSE(server_.seen[5].policy_state);
}

TEST_F(LoopTest, TheServerIsToldLimitsInTheCoreUnitOfNow) {
  config_.services[0].spec.min_cores = 2;
  config_.services[0].spec.max_cores = 3;
  build();
  turn(1);
  machine_.platform_.core_quantum = 0.1;
  turn(2);
  config_.cpu.quantum = 0.1;
  turn(3);
  config_.cpu.quantum.reset();
  config_.services[0].spec.min_cores = 1;  // nobody set it
  turn(4);
  std::vector<unsigned> least;
  std::vector<unsigned> most;
  for (const Observation& seen : server_.seen) {
    least.push_back(seen.services[0].min_cores);
    most.push_back(*seen.services[0].max_cores);
  }
  EXPECT_THAT(least, ElementsAre(2, 20, 2, 1));
  EXPECT_THAT(most, ElementsAre(3, 30, 3, 30));
}

TEST_F(LoopTest, RefusedDecisionKeepsTheLastPartition) {
  turn(1);
  machine_.status = OutcomeStatus::Refused;
  turn(2);
  turn(3);
  EXPECT_EQ(server_.seen[2].outcome->status, OutcomeStatus::Refused);
  EXPECT_TRUE(server_.seen[2].partition);
  machine_.status = OutcomeStatus::Failed;
  turn(4);
  turn(5);
  EXPECT_FALSE(server_.seen[4].partition);
}

TEST_F(LoopTest, AnAbsentServiceIsNotObservedButNamed) {
  ServiceConfig xapian = config_.services[0];
  xapian.spec.name = "xapian";
  config_.services.push_back(xapian);
  build();
  machine_.places_ = {{"moses", {}, false, true, "", {}, {}},
                      {"xapian", {}, true, true, "cgroup x does not exist", {}, {}}};
  turn(1);
  turn(2);
  ASSERT_EQ(server_.seen[1].services.size(), 1U);
  EXPECT_EQ(server_.seen[1].services[0].name, "moses");
  EXPECT_EQ(server_.seen[1].missing.at("service.xapian"), "cgroup x does not exist");
  EXPECT_TRUE(server_.seen[1].partition);
  EXPECT_EQ(loop_->report().absent, std::vector<std::string>{"xapian"});
  EXPECT_THAT(audit_text(), HasSubstr(R"("absent":["xapian"])"));
  // It comes: a partition among others is of no use, and nobody else changed anything.
  machine_.places_[1].absent = false;
  machine_.state.push_back({"xapian", {}, {}, {}, {}, {}});
  turn(3);
  EXPECT_EQ(server_.seen[2].services.size(), 2U);
  EXPECT_FALSE(server_.seen[2].partition);
  EXPECT_FALSE(server_.seen[2].missing.contains("service.xapian"));
  EXPECT_FALSE(loop_->report().changed_by_others);
  EXPECT_TRUE(loop_->report().absent.empty());
}

TEST_F(LoopTest, WithoutAnyServiceTheServerIsNotAskedAndItsSilenceDoesNotCount) {
  config_.fallback = Fallback::Release;
  machine_.places_ = {{"moses", {}, true, true, "cgroup m does not exist", {}, {}}};
  machine_.state.clear();
  for (int t = 1; t <= 20; ++t) turn(t);
  EXPECT_TRUE(server_.seen.empty());
  EXPECT_EQ(machine_.restored, 0);
  EXPECT_FALSE(loop_->report().failure);
  machine_.places_[0].absent = false;
  machine_.state = {{"moses", {}, {}, {}, {}, {}}};
  turn(21);
  EXPECT_EQ(server_.seen.size(), 1U);
}

TEST_F(LoopTest, ADryRunLooksForServicesAnewAndReconcilesNothing) {
  build(true);
  turn(1);
  turn(2);
  EXPECT_EQ(machine_.looked, 2);
  EXPECT_EQ(machine_.reconciled, 0);
}

TEST_F(LoopTest, SilenceHoldsThenFallsBackOnce) {
  config_.fallback = Fallback::Even;
  turn(1);
  server_.error = AskError{AskFailure::Unreachable, "refused", std::nullopt};
  for (int t = 2; t <= 5; ++t) turn(t);
  EXPECT_EQ(machine_.applied.size(), 1U);
  for (int t = 6; t <= 9; ++t) turn(t);
  ASSERT_EQ(machine_.applied.size(), 2U);
  EXPECT_EQ(machine_.applied[1].policy, "fallback even");
  server_.error.reset();
  turn(10);
  EXPECT_EQ(machine_.applied.size(), 3U);
  EXPECT_EQ(server_.seen.back().policy_state, "state of 1");
  EXPECT_EQ(server_.seen.back().assignments[0].cpus, "0-1");
}

TEST_F(LoopTest, AnEqualFallbackFollowsTheServicesAndTheCpus) {
  config_.fallback = Fallback::Even;
  turn(1);
  server_.error = AskError{AskFailure::Unreachable, "refused", std::nullopt};
  for (int t = 2; t <= 8; ++t) turn(t);
  ASSERT_EQ(machine_.applied.size(), 2U);
  machine_.state.push_back({"xapian", {}, {}, {}, {}, {}});
  turn(9);
  ASSERT_EQ(machine_.applied.size(), 3U);
  EXPECT_EQ(machine_.applied[2].assignments.size(), 2U);
  turn(10);
  EXPECT_EQ(machine_.applied.size(), 3U);
  EXPECT_EQ(loop_->report().state, AgentState::FallenBack);
  std::size_t tries = 3;
  for (const OutcomeStatus status : {OutcomeStatus::Failed, OutcomeStatus::RolledBack}) {
    machine_.platform_.cpus += ",5";
    machine_.state.push_back({"be" + std::to_string(tries), {}, {}, {}, {}, {}});
    machine_.status = status;
    turn(11);
    EXPECT_EQ(loop_->report().state, AgentState::Holding) << "it is not in force";
    machine_.status = OutcomeStatus::Applied;
    turn(12);
    tries += 2;
    EXPECT_EQ(machine_.applied.size(), tries);
    turn(13);
    EXPECT_EQ(machine_.applied.size(), tries);
  }
}

TEST_F(LoopTest, MinimumsThatDoNotFitTogetherAreToldOnce) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
  machine_.platform_.cores = 2;
  config_.services[0].spec.min_cores = 3;
  config_.services[0].limits.min_cores_given = true;
  build();
  turn(1);
  turn(2);
  spdlog::set_default_logger(before);
  const std::string told = "min_cores of all services are 3 cores together, this node has 2; lower limits.min_cores";
  const std::size_t first = log.str().find(told);
  EXPECT_NE(first, std::string::npos) << log.str();
  EXPECT_EQ(log.str().find(told, first + 1), std::string::npos);
}

TEST_F(LoopTest, WhatCountsInAnotherUnitOfMemoryBandwidthIsNotSent) {
  machine_.platform_.mba = MbaRange{10, 100, 10, "percent"};
  turn(1);
  turn(2);
  EXPECT_EQ(server_.seen.back().policy_state, "state of 1");
  machine_.platform_.mba->unit = "mbps";
  turn(3);
  EXPECT_FALSE(server_.seen.back().policy_state);
  EXPECT_FALSE(server_.seen.back().partition);
  turn(4);
  EXPECT_EQ(server_.seen.back().policy_state, "state of 3");
}

TEST_F(LoopTest, WithoutAnyPatienceTheFallbackDoesNotWaitForAServerThatWantsPeace) {
  config_.fallback = Fallback::Release;
  config_.hold_s = 0;
  build();
  server_.error = AskError{AskFailure::Busy, "busy", 60.0};
  for (int t = 1; t <= 3; ++t) turn(t);
  EXPECT_EQ(machine_.restored, 1);
}

TEST_F(LoopTest, NothingIsThrottledAfterARelease) {
  config_.fallback = Fallback::Release;
  build();
  turn(1);
  machine_.state[0].mba = 20;
  server_.error = AskError{AskFailure::Broken, "html", std::nullopt};
  for (int t = 2; t <= 9 && machine_.restored == 0; ++t) turn(t);
  EXPECT_EQ(machine_.restored, 1);
  EXPECT_FALSE(loop_->assignments()[0].mba);
}

TEST_F(LoopTest, ADryRunGoesOnWithWhatItSupposesOverAReload) {
  machine_.status = OutcomeStatus::DryRun;
  build(true);
  turn(1);
  turn(2);
  ASSERT_EQ(server_.seen.back().assignments[0].cpus, "0-3");
  const Memory memory = loop_->memory();
  build(true);
  loop_->remember(memory, 2);
  turn(3);
  EXPECT_EQ(server_.seen.back().assignments[0].cpus, "0-3");
  EXPECT_TRUE(server_.seen.back().partition) << "nobody has changed it";
}

// As often as somebody reloads: hold_s ends when it ends.
TEST_F(LoopTest, SilenceGoesOnOverAReload) {
  config_.fallback = Fallback::Even;
  const auto reload = [this](double now_s) {
    const Memory memory = loop_->memory();
    build();
    loop_->remember(memory, now_s);
  };
  server_.error = AskError{AskFailure::Unreachable, "refused", std::nullopt};
  for (int t = 1; t <= 5; ++t) {
    turn(t);
    reload(t);
  }
  EXPECT_TRUE(machine_.applied.empty());
  turn(6);
  EXPECT_EQ(machine_.applied.size(), 1U);
  EXPECT_TRUE(loop_->report().fell_back);
  reload(6);
  turn(7);
  EXPECT_EQ(machine_.applied.size(), 2U) << "the fallback may be another one now";
  EXPECT_FALSE(loop_->report().fell_back) << "counted once";
  turn(8);
  EXPECT_EQ(machine_.applied.size(), 2U);
  EXPECT_EQ(loop_->report().state, AgentState::FallenBack);
}

TEST_F(LoopTest, TheServerIsLeftInPeaceOverAReload) {
  server_.error = AskError{AskFailure::Busy, "busy", 3.0};
  turn(1);
  const Memory memory = loop_->memory();
  build();
  loop_->remember(memory, 1);
  turn(2);
  EXPECT_EQ(server_.seen.size(), 1U);
}

TEST_F(LoopTest, AShorterHoldShortensThePeaceThatWasBeforeTheReload) {
  config_.hold_s = 60;
  config_.fallback = Fallback::Even;
  build();
  server_.error = AskError{AskFailure::Busy, "busy", 30.0};
  turn(1);
  const Memory memory = loop_->memory();
  config_.hold_s = 5;
  build();
  loop_->remember(memory, 2);
  turn(3);
  EXPECT_EQ(server_.seen.size(), 1U);
  server_.error.reset();
  turn(4);
  EXPECT_EQ(server_.seen.size(), 2U) << "half of what is left of hold_s";
  EXPECT_EQ(loop_->report().state, AgentState::Deciding);
}

TEST_F(LoopTest, FallbackReleaseRestoresAndHoldDoesNothing) {
  server_.error = AskError{AskFailure::Broken, "html", std::nullopt};
  for (int t = 1; t <= 9; ++t) turn(t);
  EXPECT_EQ(machine_.restored, 0);
  EXPECT_TRUE(machine_.applied.empty());
  config_.fallback = Fallback::Release;
  build();
  machine_.state[0].mba = 20;
  for (int t = 1; t <= 9; ++t) turn(t);
  EXPECT_EQ(machine_.restored, 1);
  const std::string audit = audit_text();
  const auto lines = split_lines(audit);
  ASSERT_EQ(lines.size(), 1U) << audit;
  const auto line = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(line.at("policy"), "release");
  EXPECT_EQ(line.at("status"), "applied");
  EXPECT_EQ(line.at("changes")[0].at("field"), "mba");
  EXPECT_EQ(line.at("changes")[0].at("old"), 20);
  EXPECT_TRUE(line.at("changes")[0].at("new").is_null());
  EXPECT_THAT(line.at("reasons")[0].at("text"), HasSubstr("the server does not answer"));
}

TEST_F(LoopTest, AFallbackThatIsRefusedIsTriedAgainUntilItTakesEffect) {
  config_.fallback = Fallback::Even;
  build();
  server_.error = AskError{AskFailure::Unreachable, "refused", std::nullopt};
  machine_.status = OutcomeStatus::Refused;
  for (int t = 1; t <= 8; ++t) turn(t);
  EXPECT_EQ(machine_.applied.size(), 3U);
  EXPECT_EQ(loop_->report().state, AgentState::Holding) << "it is not in force";
  EXPECT_TRUE(loop_->report().overdue);
  EXPECT_FALSE(loop_->report().fell_back) << "counted once";
  machine_.status = OutcomeStatus::Applied;
  for (int t = 9; t <= 12; ++t) turn(t);
  EXPECT_EQ(machine_.applied.size(), 4U);
  EXPECT_EQ(loop_->report().state, AgentState::FallenBack);
}

TEST_F(LoopTest, AReleaseThatFailsIsTriedAgain) {
  config_.fallback = Fallback::Release;
  build();
  server_.error = AskError{AskFailure::Unreachable, "refused", std::nullopt};
  machine_.unrestored = true;
  for (int t = 1; t <= 8; ++t) turn(t);
  EXPECT_EQ(machine_.restored, 3);
  EXPECT_EQ(loop_->report().state, AgentState::Holding);
  std::string audit = audit_text();
  auto lines = split_lines(audit);
  ASSERT_EQ(lines.size(), 1U) << "the same again is no news";
  EXPECT_EQ(nlohmann::json::parse(lines[0]).at("status"), "failed");
  EXPECT_EQ(nlohmann::json::parse(lines[0]).at("message"), "a write failed");
  machine_.unrestored = false;
  for (int t = 9; t <= 12; ++t) turn(t);
  EXPECT_EQ(machine_.restored, 4);
  audit = audit_text();
  lines = split_lines(audit);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(lines[1]).at("status"), "applied");
  EXPECT_EQ(loop_->report().state, AgentState::FallenBack);
}

TEST_F(LoopTest, OneLostAnswerIsNoSilenceHoweverLongTheInterval) {
  config_.fallback = Fallback::Release;
  build();
  turn(20);
  server_.error = AskError{AskFailure::Unreachable, "refused", std::nullopt};
  turn(40);
  EXPECT_EQ(machine_.restored, 0);
  EXPECT_EQ(loop_->report().state, AgentState::Holding);
  turn(60);
  EXPECT_EQ(machine_.restored, 1);
}

TEST_F(LoopTest, TheServerIsAskedAgainBeforeTheFallbackHoweverLongItWantsPeace) {
  config_.fallback = Fallback::Release;
  build();
  turn(1);
  server_.error = AskError{AskFailure::Busy, "busy", 30.0};
  turn(2);
  server_.error.reset();
  for (int t = 3; t <= 8; ++t) turn(t);
  EXPECT_EQ(machine_.restored, 0);
  EXPECT_EQ(loop_->report().state, AgentState::Deciding);
  EXPECT_EQ(server_.seen.size(), 6U) << "asked anew at 5";
}

TEST_F(LoopTest, RetryAfterIsHonouredButBounded) {
  server_.error = AskError{AskFailure::Busy, "busy", 3.0};
  turn(1);
  server_.error.reset();
  turn(2);
  turn(3);
  EXPECT_EQ(server_.seen.size(), 1U);
  turn(4.5);
  EXPECT_EQ(server_.seen.size(), 2U);
  server_.error = AskError{AskFailure::Busy, "busy", 1e9};
  turn(5);
  turn(66);
  EXPECT_EQ(server_.seen.size(), 4U);
}

TEST_F(LoopTest, StateThatTheServerRefusesIsDropped) {
  turn(1);
  server_.error = AskError{AskFailure::Refused, "the token is wrong", std::nullopt};
  turn(2);
  turn(3);
  server_.error->of_question = true;
  turn(4);
  turn(5);
  for (const std::size_t turn : {1U, 2U, 3U}) EXPECT_TRUE(server_.seen[turn].policy_state) << turn;
  EXPECT_FALSE(server_.seen[4].policy_state);
}

TEST_F(LoopTest, ReportSaysWhatTheTurnCameTo) {
  turn(1);
  EXPECT_EQ(loop_->report().state, AgentState::Deciding);
  EXPECT_EQ(loop_->report().outcome->status, OutcomeStatus::Applied);
  EXPECT_TRUE(loop_->report().server_ms);
  EXPECT_THAT(loop_->report().missing, testing::Contains("llc_ways"));
  machine_.state[0].cpus = "7";
  machine_.status = OutcomeStatus::RolledBack;
  turn(2);
  EXPECT_TRUE(loop_->report().changed_by_others);
  EXPECT_EQ(loop_->report().kernel.at(static_cast<std::size_t>(KernelWork::Apply)), 1U);
  server_.error = AskError{AskFailure::Broken, "html", std::nullopt};
  turn(3);
  EXPECT_EQ(loop_->report().state, AgentState::Holding);
  EXPECT_EQ(loop_->report().failure, AskFailure::Broken);
  EXPECT_FALSE(loop_->report().outcome) << "what the last turn left is not this one's";
  turn(8);
  EXPECT_EQ(loop_->report().state, AgentState::FallenBack);
  EXPECT_TRUE(loop_->report().fell_back);
  turn(9);
  EXPECT_EQ(loop_->report().state, AgentState::FallenBack);
  EXPECT_FALSE(loop_->report().fell_back) << "once";
}

TEST_F(LoopTest, AuditSaysWhatWasDoneAfterwards) {
  turn(1);
  const auto line = nlohmann::json::parse(audit_text());
  EXPECT_EQ(line.at("seq"), 1);
  EXPECT_EQ(line.at("policy"), "arq");
  EXPECT_EQ(line.at("status"), "applied");
  EXPECT_EQ(line.at("changes")[0].at("field"), "cpus");
  EXPECT_TRUE(line.at("changes")[0].at("old").is_null());
  EXPECT_EQ(line.at("changes")[0].at("new"), "0-3");
  EXPECT_EQ(line.at("reasons")[0].at("text"), "p99 12.4 ms > 10 ms");
}

TEST(Audit, ChangesOfLeversAreTold) {
  Assignment before{"lc", "0-3", {}, {}, {}, {}};
  Assignment after = before;
  before.levers.memory_mib = 512;
  after.levers.disk_iops = 100;
  EXPECT_EQ(changes_in_words({before}, {after}),
            (std::vector<std::string>{"lc memory_mib 512 -> unset", "lc disk_iops unset -> 100"}));
}

TEST_F(LoopTest, ARunOfUnchangedIsOneLine) {
  machine_.status = OutcomeStatus::Unchanged;
  for (int t = 1; t <= 5; ++t) turn(t);
  EXPECT_EQ(split_lines(audit_text()).size(), 1U);
}

// A disk that is full: the journal is on it, too.
TEST_F(LoopTest, AnAuditLogThatCannotBeWrittenIsToldOnce) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
  fs::create_directory(tree_ / "audit.jsonl");
  machine_.status = OutcomeStatus::Unchanged;
  for (int t = 1; t <= 3; ++t) turn(t);
  const std::string failing = log.str();
  fs::remove(tree_ / "audit.jsonl");
  for (int t = 4; t <= 6; ++t) turn(t);
  spdlog::set_default_logger(before);
  const std::string told = "the audit log cannot be written";
  ASSERT_NE(failing.find(told), std::string::npos) << failing;
  EXPECT_EQ(failing.find(told), failing.rfind(told)) << failing;
  EXPECT_THAT(log.str(), HasSubstr("the audit log can be written again"));
  EXPECT_EQ(split_lines(audit_text()).size(), 1U);
}

TEST_F(LoopTest, DryRunWritesNothing) {
  build(true);
  machine_.status = OutcomeStatus::DryRun;
  turn(1);
  turn(2);
  EXPECT_EQ(machine_.reconciled, 0);
  EXPECT_EQ(audit_text(), "");
}

TEST_F(LoopTest, DryRunAnswersWithWhatItsDecisionsWouldHaveSet) {
  machine_.status = OutcomeStatus::DryRun;
  build(true);
  turn(1.0);
  turn(2.0);
  turn(3.0);
  ASSERT_EQ(server_.seen.size(), 3U);
  EXPECT_FALSE(server_.seen[0].partition);
  ASSERT_TRUE(server_.seen[1].partition);
  EXPECT_EQ(server_.seen[1].partition->regions.at(0).cores, 4U);
  EXPECT_EQ(server_.seen[1].assignments.at(0).cpus, "0-3");
  ASSERT_TRUE(server_.seen[1].outcome);
  EXPECT_EQ(server_.seen[1].outcome->status, OutcomeStatus::Applied);
  EXPECT_EQ(server_.seen[2].outcome->status, OutcomeStatus::Unchanged);
  EXPECT_EQ(server_.seen[2].policy_state, "state of 2");
  for (const Observation& seen : server_.seen) EXPECT_EQ(seen.missing.count("dry_run"), 1U);
  EXPECT_FALSE(machine_.state.at(0).cpus);  // the machine is as it was
  EXPECT_TRUE(machine_.began_at.at(0).empty()) << "nothing is a decision's yet";
  EXPECT_EQ(machine_.began_at.at(1).at(0).cpus, "0-3");  // steps begin at what is supposed
  EXPECT_EQ(loop_->report().outcome->status, OutcomeStatus::DryRun);
  EXPECT_EQ(audit_text(), "");
}

}  // namespace
}  // namespace osml
