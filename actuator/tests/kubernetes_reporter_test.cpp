// What goes to the API server and when, and what its bad days do: nothing but a sentence in the log. Time is the
// test's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fake_server.h"
#include "kubernetes/reporter.h"
#include "scratch_tree.h"

namespace osml {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing_support::FakeServer;
using testing_support::http;
using testing_support::ScratchTree;
using testing_support::without_length;

const std::string taken = http(200, "application/json", R"({"kind":"Node"})");

struct Request {
  std::string line;  // method and path
  std::string head;
  json body;
};

class ReporterTest : public testing::Test {
 protected:
  ReporterTest() : before_(spdlog::default_logger()) {
    tree_.write("token", "secret-token\n").write("ca.crt", "no certificate is needed without TLS\n");
    ::chmod((tree_ / "token").c_str(), 0600);
    ::chmod((tree_ / "ca.crt").c_str(), 0600);
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
    config_.condition = config_.events = config_.batch_cpu = true;
    config_.node_name = "node-17";
    config_.url = server_.url();
    config_.timeout_s = 30;
    config_.token_file = tree_ / "token";
    config_.ca_file = tree_ / "ca.crt";
  }
  ~ReporterTest() override { spdlog::set_default_logger(before_); }

  void build() { reporter_ = std::make_unique<ClusterReporter>(config_, 1.0, 1.0); }
  Moment now() const { return {now_s_, 1764072000 + now_s_}; }
  // One second of a node whose decisions leave `cpus` to jobs.
  void turn(Standing standing, double cpus = 12) {
    now_s_ += 1;
    ClusterFacts facts;
    facts.standing = standing;
    if (standing != Standing::NoDecision) facts.services = {"search"};
    facts.jobs_cpus = cpus;
    facts.machine_cpus = 36;
    reporter_->see(facts, now());
    finish();
  }
  void pass(int seconds, Standing standing, double cpus = 12) {
    for (int i = 0; i < seconds; ++i) turn(standing, cpus);
  }
  // Carries what is under way to its end.
  void finish() {
    pollfd waiting{reporter_->fd(), POLLIN, 0};
    while (reporter_->under_way() && ::poll(&waiting, 1, 30000) > 0) reporter_->carry(now());
  }
  std::uint64_t count(ApiResult result) const {
    return reporter_->counts().results.at(static_cast<std::size_t>(result));
  }
  std::string answer_to(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    const std::size_t head = text.find("\r\n\r\n");
    requests_.push_back(
        {text.substr(0, text.find(" HTTP/")), text.substr(0, head), json::parse(text.substr(head + 4))});
    return answer_;
  }
  void answer(const std::string& answer) {
    const std::scoped_lock lock(mutex_);
    answer_ = answer;
  }
  std::vector<Request> requests() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(requests_, {});
  }
  int sentences(const std::string& words) const {
    std::istringstream lines(log_.str());
    int found = 0;
    for (std::string line; std::getline(lines, line);) found += line.find(words) != std::string::npos ? 1 : 0;
    return found;
  }

  ScratchTree tree_;
  std::ostringstream log_;
  std::shared_ptr<spdlog::logger> before_;
  std::mutex mutex_;
  std::string answer_ = taken;
  std::vector<Request> requests_;
  FakeServer server_{[this](const std::string& request) { return answer_to(request); }};
  KubernetesConfig config_;
  std::unique_ptr<ClusterReporter> reporter_;
  double now_s_ = 0;
};

TEST_F(ReporterTest, ToldOnChangeAndAsAHeartbeat) {
  build();
  pass(70, Standing::Met);
  auto seen = requests();
  ASSERT_EQ(seen.size(), 1U) << "the resource is known a few seconds later, and waits for a minute";
  EXPECT_EQ(seen[0].line, "PATCH /api/v1/nodes/node-17/status");
  EXPECT_THAT(seen[0].head, AllOf(HasSubstr("Content-Type: application/strategic-merge-patch+json"),
                                  HasSubstr("Authorization: Bearer secret-token")));
  const json first = seen[0].body["status"]["conditions"][0];
  EXPECT_EQ(first["status"], "True");
  pass(300, Standing::Met);
  seen = requests();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].body["status"]["capacity"]["osml.dev/batch-millicpu"], "12000");
  pass(300, Standing::Met);
  seen = requests();
  ASSERT_EQ(seen.size(), 1U) << "a heartbeat";
  const json heartbeat = seen[0].body["status"]["conditions"][0];
  EXPECT_EQ(heartbeat["lastTransitionTime"], first["lastTransitionTime"]);
  EXPECT_NE(heartbeat["lastHeartbeatTime"], first["lastHeartbeatTime"]);
}

TEST_F(ReporterTest, TargetsThatAreMissedAndMetAgain) {
  build();
  pass(120, Standing::Met);
  requests();
  pass(35, Standing::Infeasible);
  auto seen = requests();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].body["status"]["conditions"][0]["reason"], "Infeasible");
  EXPECT_EQ(seen[0].body["status"]["capacity"]["osml.dev/batch-millicpu"], "0");
  EXPECT_EQ(seen[1].line, "POST /api/v1/namespaces/default/events");
  EXPECT_THAT(seen[1].head, HasSubstr("Content-Type: application/json"));
  EXPECT_EQ(seen[1].body["reason"], "LatencyTargetsInfeasible");
  pass(90, Standing::NoDecision);
  pass(90, Standing::Met);
  seen = requests();
  EXPECT_EQ(seen.back().body["reason"], "LatencyTargetsMet") << "the silence in between ended nothing";
  EXPECT_EQ(count(ApiResult::Failed), 0U);
}

TEST_F(ReporterTest, OnlyWhatIsOnIsSaid) {
  config_.condition = config_.batch_cpu = false;
  build();
  pass(120, Standing::Missed);
  reporter_->stop(now());
  auto seen = requests();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].body["kind"], "Event");
  config_.condition = true;
  config_.events = false;
  build();
  pass(120, Standing::Missed);
  seen = requests();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_FALSE(seen[0].body["status"].contains("capacity"));
}

TEST_F(ReporterTest, AStopSaysSoAndTakesTheResourceAway) {
  build();
  pass(70, Standing::Met);
  requests();
  reporter_->stop(now());
  const auto seen = requests();
  ASSERT_EQ(seen.size(), 1U);
  const json status = seen[0].body["status"];
  EXPECT_EQ(status["conditions"][0]["reason"], "AgentStopped");
  EXPECT_EQ(status["conditions"][0]["lastTransitionTime"], kubernetes_time(now().unix_s));
  EXPECT_TRUE(status["capacity"]["osml.dev/batch-millicpu"].is_null());
}

TEST_F(ReporterTest, AReloadTakesAwayOnlyWhatIsNotToldAnyMore) {
  build();
  pass(70, Standing::Met);
  requests();
  const auto give_way = [this] {
    ClusterReporter next(config_, 2.0, 1.0);
    reporter_->give_way(next, now());
    return requests();
  };
  config_.heartbeat_s = 200;
  EXPECT_TRUE(give_way().empty());
  config_.batch_cpu = false;
  auto seen = give_way();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_FALSE(seen[0].body["status"].contains("conditions"));
  EXPECT_TRUE(seen[0].body["status"]["capacity"]["osml.dev/batch-millicpu"].is_null());
  config_.batch_cpu = true;
  config_.condition = false;
  seen = give_way();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_FALSE(seen[0].body["status"].contains("capacity"));
  EXPECT_EQ(seen[0].body["status"]["conditions"][0]["reason"], "AgentStopped");
  config_.condition = true;
  config_.node_name = "node-18";
  seen = give_way();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].line, "PATCH /api/v1/nodes/node-17/status");
  EXPECT_EQ(seen[0].body["status"]["conditions"][0]["reason"], "AgentStopped");
}

TEST_F(ReporterTest, WhatAReloadCannotTakeAwayIsToldWithoutTalkOfAStop) {
  build();
  pass(70, Standing::Met);
  answer(http(503, "text/plain", "oh"));
  config_.batch_cpu = false;
  ClusterReporter next(config_, 1.0, 1.0);
  reporter_->give_way(next, now());
  EXPECT_THAT(log_.str(),
              AllOf(HasSubstr("cannot take back what it reported of node 'node-17', and does not try again: HTTP 503"),
                    HasSubstr("; remove osml.dev/batch-millicpu by hand"), Not(HasSubstr("stops"))));
}

TEST_F(ReporterTest, AfterAReloadTheConditionChangedWhenItChangedBefore) {
  build();
  pass(70, Standing::Met);
  const json told = requests().back().body["status"]["conditions"][0];
  const auto before = std::move(reporter_);
  build();
  before->give_way(*reporter_, now());
  pass(70, Standing::Met);
  const json again = requests().back().body["status"]["conditions"][0];
  EXPECT_EQ(again["status"], "True");
  EXPECT_EQ(again["lastTransitionTime"], told["lastTransitionTime"]);
  EXPECT_NE(again["lastHeartbeatTime"], told["lastHeartbeatTime"]);
}

// Else it would go back: the API server has had "Unknown" since it was off.
TEST_F(ReporterTest, AConditionThatWasOffChangedWhenItIsOnAgain) {
  build();
  pass(70, Standing::Met);
  requests();
  for (const bool condition : {false, true}) {
    const auto before = std::move(reporter_);
    config_.condition = condition;
    build();
    before->give_way(*reporter_, now());
    const double reloaded_s = now().unix_s;
    pass(70, Standing::Met);
    const json told = requests().front().body["status"]["conditions"][0];
    EXPECT_EQ(told["status"], condition ? "True" : "Unknown");
    EXPECT_EQ(told["lastTransitionTime"], kubernetes_time(reloaded_s));
  }
}

// It misses in a fifth of the intervals: no news, so the last news must be kept up.
TEST_F(ReporterTest, AReloadKeepsTheVerdictThatStands) {
  build();
  pass(70, Standing::Missed);
  requests();
  const auto before = std::move(reporter_);
  config_.heartbeat_s = 200;
  build();
  before->give_way(*reporter_, now());
  turn(Standing::Missed);
  auto seen = requests();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].body["status"]["conditions"][0]["reason"], "TargetsMissed");
  EXPECT_EQ(seen[0].body["status"]["capacity"]["osml.dev/batch-millicpu"], "0");
  for (int i = 0; i < 60; ++i) {
    pass(4, Standing::Met);
    turn(Standing::Missed);
  }
  seen = requests();
  ASSERT_EQ(seen.size(), 1U) << "a heartbeat, and no second event";
  EXPECT_EQ(seen[0].body["status"]["conditions"][0]["reason"], "TargetsMissed");
  EXPECT_EQ(seen[0].body["status"]["capacity"]["osml.dev/batch-millicpu"], "0");
}

struct Fault {
  std::string answer;
  ApiResult result;
  std::string sentence;
};

class ReporterFault : public ReporterTest, public testing::WithParamInterface<Fault> {};

TEST_P(ReporterFault, IsNamedOnceAndEnds) {
  const Fault& fault = GetParam();
  config_.events = false;
  // Silence takes its time; all else shall not end by a busy machine.
  config_.timeout_s = fault.answer.empty() ? 0.2 : 30;
  build();
  answer(fault.answer);
  pass(200, Standing::Met);
  EXPECT_GE(count(fault.result), 2U);
  EXPECT_LE(requests().size(), 6U) << "it is asked less and less often";
  EXPECT_EQ(sentences("cannot tell the cluster the status of the node"), 1) << log_.str();
  EXPECT_THAT(log_.str(), AllOf(HasSubstr(fault.sentence), Not(HasSubstr("secret-token"))));
  answer(taken);
  pass(300, Standing::Met);
  EXPECT_EQ(count(ApiResult::Written) > 0, true);
  EXPECT_EQ(sentences("takes the status of the node again"), 1);
}

INSTANTIATE_TEST_SUITE_P(
    All, ReporterFault,
    testing::Values(
        Fault{http(401, "application/json", "{}"), ApiResult::Refused, "HTTP 401; the API server does not accept"},
        Fault{http(403, "application/json", "{}"), ApiResult::Refused, "HTTP 403; allow the token's account to patch"},
        Fault{http(404, "application/json", "{}"), ApiResult::Refused, "it knows the node 'node-17'"},
        Fault{http(409, "application/json", "{}"), ApiResult::Busy, "HTTP 409; another program wrote"},
        Fault{http(422, "application/json", "{}"), ApiResult::Refused, "HTTP 422"},
        Fault{http(429, "application/json", "{}", "Retry-After: 40\r\n"), ApiResult::Busy, "HTTP 429"},
        Fault{http(500, "text/plain", "oh"), ApiResult::Failed, "HTTP 500"},
        Fault{http(302, "text/plain", "", "Location: http://127.0.0.1:1/\r\n"), ApiResult::Failed,
              "HTTP 302; the agent follows no redirect"},
        Fault{http(200, "application/json", std::string(std::size_t{5} << 20U, ' ')), ApiResult::Unreachable,
              "the answer is longer than 4194304 bytes"},
        Fault{without_length("application/json", std::string(std::size_t{5} << 20U, ' ')), ApiResult::Unreachable,
              "the answer is longer than 4194304 bytes"},
        Fault{"<html>", ApiResult::Unreachable, "HTTP/0.9"}, Fault{"", ApiResult::Unreachable, "timed out"}));

TEST_F(ReporterTest, NonsenseInAGoodAnswerDoesNotMatter) {
  build();
  answer(http(200, "text/html", "<html>\xff\x1b[31m"));
  pass(70, Standing::Met);
  EXPECT_EQ(count(ApiResult::Written), 1U);
  EXPECT_EQ(log_.str(), "");
}

TEST_F(ReporterTest, RetryAfterIsObeyed) {
  config_.events = config_.batch_cpu = false;
  build();
  answer(http(429, "application/json", "{}", "Retry-After: 100\r\n"));
  pass(60, Standing::Met);
  EXPECT_EQ(requests().size(), 1U);
  pass(90, Standing::Met);
  EXPECT_EQ(requests().size(), 0U);
}

TEST_F(ReporterTest, TheTokenIsReadAnewAndOneThatAllCanReadIsRefused) {
  config_.events = config_.batch_cpu = false;
  build();
  ::chmod((tree_ / "token").c_str(), 0644);
  pass(60, Standing::Met);
  EXPECT_EQ(requests().size(), 0U);
  EXPECT_EQ(count(ApiResult::Failed), 1U);
  EXPECT_THAT(log_.str(), HasSubstr("kubernetes.token_file"));
  tree_.write("token", "second");
  ::chmod((tree_ / "token").c_str(), 0600);
  pass(60, Standing::Met);
  const auto seen = requests();
  ASSERT_GE(seen.size(), 1U);
  EXPECT_THAT(seen[0].head, HasSubstr("Bearer second"));
}

TEST_F(ReporterTest, AnEventThatTheServerForgotIsMadeAnew) {
  config_.condition = config_.batch_cpu = false;
  build();
  pass(60, Standing::Missed);
  pass(60, Standing::Met);
  EXPECT_EQ(requests().size(), 2U);
  answer(http(404, "application/json", "{}"));
  pass(31, Standing::Missed);
  answer(taken);
  pass(60, Standing::Missed);
  const auto seen = requests();
  EXPECT_THAT(seen.front().line, StartsWith("PATCH /api/v1/namespaces/default/events/node-17."));
  EXPECT_EQ(seen.back().line, "POST /api/v1/namespaces/default/events");
  EXPECT_EQ(seen.back().body["count"], 2);
}

TEST_F(ReporterTest, AnEventWhoseAnswerWasLostIsThereAlready) {
  config_.condition = config_.batch_cpu = false;
  config_.timeout_s = 0.2;
  build();
  answer("");
  pass(31, Standing::Missed);
  answer(http(409, "application/json", "{}"));
  pass(60, Standing::Missed);
  EXPECT_EQ(sentences("takes events again"), 1) << log_.str();
}

}  // namespace
}  // namespace osml
