// When the API server is asked for LatencyTargets and how, and what its bad days do: nothing is taken away. Time is the
// test's.
#include "kubernetes/target_lister.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <mutex>
#include <set>
#include <sstream>

#include "fake_server.h"
#include "scratch_tree.h"

namespace osml {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing_support::FakeServer;
using testing_support::http;
using testing_support::ScratchTree;

std::string item(const std::string& name, const std::string& name_space = "shop") {
  return R"({"metadata":{"name":")" + name + R"(","namespace":")" + name_space +
         R"("},"spec":{"selector":{"matchLabels":{"app":"web"}},"class":"be"}})";
}

std::string list(const std::string& items, const std::string& next = "") {
  return http(200, "application/json",
              R"({"kind":"LatencyTargetList","metadata":{"continue":")" + next + R"("},"items":[)" + items + "]}");
}

class TargetListerTest : public testing::Test {
 protected:
  TargetListerTest() : before_(spdlog::default_logger()) {
    tree_.write("token", "secret-token\n").write("ca.crt", "no certificate is needed without TLS\n");
    ::chmod((tree_ / "token").c_str(), 0600);
    ::chmod((tree_ / "ca.crt").c_str(), 0600);
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
    config_.node = "node-17";
    config_.kubelet.discover.namespaces = {"*"};
    config_.kubelet.discover.latency_targets = true;
    config_.kubernetes.url = server_.url();
    config_.kubernetes.timeout_s = 30;  // no test here shall end by a busy machine
    config_.kubernetes.token_file = tree_ / "token";
    config_.kubernetes.ca_file = tree_ / "ca.crt";
  }
  ~TargetListerTest() override { spdlog::set_default_logger(before_); }

  void build() { lister_.emplace(config_, now_s_); }
  // Seconds of a node; what comes is taken into the book.
  void pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      now_s_ += 1;
      lister_->see(now_s_);
      pollfd waiting{lister_->fd(), POLLIN, 0};
      while (lister_->under_way() && ::poll(&waiting, 1, 30000) > 0) take();
    }
  }
  void take() {
    for (TargetNews& news : lister_->carry(now_s_)) (void)book_.take(std::move(news));
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const LatencyTarget& one : book_.targets()) names.push_back(one.full_name());
    return names;
  }
  std::string answer_to(const std::string& request) {
    const std::scoped_lock lock(mutex_);
    heads_.push_back(request.substr(0, request.find("\r\n\r\n")));
    for (const auto& [part, answer] : answers_) {
      if (heads_.back().substr(0, heads_.back().find("\r\n")).find(part) != std::string::npos) return answer;
    }
    return answer_;
  }
  void answer(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    answer_ = text;
  }
  // To requests with `part` in their first line.
  void answer(const std::string& part, const std::string& text) {
    const std::scoped_lock lock(mutex_);
    answers_[part] = text;
  }
  std::vector<std::string> requests() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(heads_, {});
  }
  [[nodiscard]] int sentences(const std::string& words) const {
    std::istringstream lines(log_.str());
    int found = 0;
    for (std::string line; std::getline(lines, line);) found += line.find(words) != std::string::npos ? 1 : 0;
    return found;
  }

  ScratchTree tree_;
  std::ostringstream log_;
  std::shared_ptr<spdlog::logger> before_;
  std::mutex mutex_;
  std::string answer_ = list(item("web"));
  std::map<std::string, std::string> answers_;
  std::vector<std::string> heads_;
  FakeServer server_{[this](const std::string& request) { return answer_to(request); }};
  Config config_;
  std::optional<TargetLister> lister_;
  TargetBook book_;
  double now_s_ = 0;
};

TEST_F(TargetListerTest, ListsFromTheCacheOnceAPeriod) {
  build();
  pass(10);
  const auto heads = requests();
  ASSERT_EQ(heads.size(), 1U);
  EXPECT_THAT(heads[0], AllOf(HasSubstr("GET /apis/osml.dev/v1alpha1/latencytargets?limit=500&resourceVersion=0 HTTP/"),
                              HasSubstr("Authorization: Bearer secret-token"), Not(HasSubstr("Content-Length"))));
  EXPECT_THAT(names(), ElementsAre("shop/web"));
  EXPECT_TRUE(lister_->counts().up);
  pass(100);
  EXPECT_EQ(requests().size(), 10U);
  answer(list(""));
  pass(10);
  EXPECT_TRUE(names().empty()) << "a deleted object takes effect with the next list";
  EXPECT_EQ(log_.str(), "");
}

TEST_F(TargetListerTest, NodesThatStartTogetherAskApart) {
  std::set<int> moments;
  for (int node = 0; node < 40; ++node) {
    config_.node = "node-" + std::to_string(node);
    now_s_ = 0;
    build();
    (void)requests();
    while (requests().empty()) pass(1);
    moments.insert(static_cast<int>(now_s_));
  }
  EXPECT_GE(moments.size(), 8U);
}

TEST_F(TargetListerTest, FollowsPagesAndTakesThemTogether) {
  answer("resourceVersion=0", list(item("a"), "next-1"));
  answer("continue=next-1", list(item("b"), "next-2"));
  answer("continue=next-2", list(item("c")));
  build();
  pass(10);
  EXPECT_THAT(names(), ElementsAre("shop/a", "shop/b", "shop/c"));
  EXPECT_THAT(requests()[1], AllOf(HasSubstr("limit=500&continue=next-1"), Not(HasSubstr("resourceVersion"))));
  answer("continue=next-2", http(410, "application/json", "{}"));
  answer("resourceVersion=0", list(item("x"), "next-1"));
  pass(10);
  EXPECT_THAT(names(), ElementsAre("shop/a", "shop/b", "shop/c")) << "half of a list is none";
  EXPECT_EQ(sentences("HTTP 410; the list changed while it was read"), 1);
  answer("continue=next-1", list("", "next-1"));  // for ever
  pass(60);
  EXPECT_EQ(sentences("objects or 16 pages"), 1);
}

TEST_F(TargetListerTest, AsksForTheNamespacesOneByOneAndOneThatIsForbiddenIsNoOthersMatter) {
  config_.kubelet.discover.namespaces = {"shop", "bank"};
  answer("namespaces/shop/", list(item("web")));
  answer("namespaces/bank/", list(item("db", "bank")));
  build();
  pass(10);
  EXPECT_THAT(names(), ElementsAre("bank/db", "shop/web"));
  answer("namespaces/shop/", http(403, "application/json", "{}"));
  answer("namespaces/bank/", list(item("db", "bank") + "," + item("two", "bank")));
  pass(30);
  EXPECT_THAT(names(), ElementsAre("bank/db", "bank/two", "shop/web"));
  EXPECT_EQ(sentences("HTTP 403; allow the token's account to list latencytargets of osml.dev"), 1);
  EXPECT_FALSE(lister_->counts().up);
  EXPECT_EQ(requests().size(), 8U) << "as often as before";
  answer("namespaces/shop/", list(""));
  pass(10);
  EXPECT_EQ(sentences("the API server tells LatencyTargets again"), 1);
  EXPECT_THAT(names(), ElementsAre("bank/db", "bank/two"));
}

TEST_F(TargetListerTest, WhatSomebodyPutsIntoOneNamespaceKeepsNobodyFromTheNext) {
  config_.kubelet.discover.namespaces = {"shop", "bank"};
  std::string many = item("a");
  for (int i = 0; i < 4200; ++i) many += ",{}";
  for (const std::string& fault : {std::string("HTTP/1.1 200 X\r\nContent-Length: 5000000\r\n\r\n"), list(many),
                                   http(200, "text/html", "<html>")}) {
    answer("namespaces/shop/", list(item("web")));
    answer("namespaces/bank/", list(item("db", "bank")));
    build();
    pass(10);
    answer("namespaces/shop/", fault);
    answer("namespaces/bank/", list(item("two", "bank")));
    pass(10);
    EXPECT_THAT(names(), ElementsAre("bank/two", "shop/web"));
    EXPECT_FALSE(lister_->counts().up);
    pass(30);
    EXPECT_EQ(sentences("does not tell LatencyTargets"), 1) << log_.str();
    log_.str("");
  }
}

TEST_F(TargetListerTest, ANamespaceThatAlwaysFailsKeepsNobodyFromTheNext) {
  config_.kubelet.discover.namespaces = {"shop", "bank", "toys"};
  answer("namespaces/shop/", http(500, "text/plain", "no"));
  answer("namespaces/bank/", list(item("db", "bank")));
  answer("namespaces/toys/", list(item("car", "toys")));
  build();
  pass(100);
  EXPECT_THAT(names(), ElementsAre("bank/db", "toys/car"));
  answer("namespaces/bank/", list(item("two", "bank")));
  pass(200);
  EXPECT_THAT(names(), ElementsAre("bank/two", "toys/car"));
  EXPECT_FALSE(lister_->counts().up);
}

TEST_F(TargetListerTest, TheFirstListComesSoonHoweverRareTheyAre) {
  config_.kubelet.discover.latency_targets_every_s = 3600;
  build();
  pass(10);
  EXPECT_THAT(names(), ElementsAre("shop/web"));
  (void)requests();
  pass(1000);
  EXPECT_TRUE(requests().empty());
}

TEST_F(TargetListerTest, BadDaysAreNamedOnceAndTakeNothingAway) {
  build();
  pass(10);
  const std::map<std::string, std::string> faults = {
      {http(401, "application/json", "{}"), "HTTP 401; the API server does not accept the token of"},
      {http(429, "application/json", "{}", "Retry-After: 7\r\n"), "HTTP 429; the agent tries again later"},
      {http(302, "text/html", "", "Location: http://127.0.0.1:1/\r\n"), "the agent follows no redirect"},
      {http(500, "application/json", "{}"), "HTTP 500"},
      {http(200, "text/html", "<html>\x1b[31m"), "expected a list of LatencyTargets as JSON, got text/html beginning"},
      {"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: 5000000\r\n\r\n", "is longer than 4194304"},
      {"nonsense\r\n\r\n", "Received HTTP/0.9"}};
  for (const auto& [fault, sentence] : faults) {
    SCOPED_TRACE(sentence);
    const auto failed = lister_->counts().failed;
    answer(fault);
    pass(130);
    EXPECT_GE(lister_->counts().failed, failed + 2);
    EXPECT_LE(lister_->counts().failed, failed + 8) << "less and less often";
    EXPECT_FALSE(lister_->counts().up);
    EXPECT_THAT(names(), ElementsAre("shop/web"));
    EXPECT_EQ(sentences(sentence), 1);
    const int again = sentences("the API server tells LatencyTargets again");
    answer(list(item("web")));
    pass(61);
    EXPECT_TRUE(lister_->counts().up);
    EXPECT_EQ(sentences("the API server tells LatencyTargets again"), again + 1);
  }
  EXPECT_EQ(sentences("those that are known stay in force"), static_cast<int>(faults.size()));
  EXPECT_EQ(sentences("secret-token"), 0);
}

TEST_F(TargetListerTest, AResourceThatIsSurelyNotThereHasNoObjects) {
  build();
  pass(10);
  answer(http(404, "text/plain", "404 page not found"));
  while (lister_->counts().failed < 2) pass(1);
  EXPECT_THAT(names(), ElementsAre("shop/web")) << "an API server that starts says so too";
  while (lister_->counts().failed < 3) pass(1);
  EXPECT_TRUE(names().empty());
  pass(120);
  EXPECT_EQ(sentences("HTTP 404; install the custom resource LatencyTarget; annotations of pods go on without it"), 1);
}

TEST_F(TargetListerTest, ATokenThatCannotBeReadIsNamedAndNothingGoesOut) {
  ::chmod((tree_ / "token").c_str(), 0644);
  build();
  pass(30);
  EXPECT_EQ(server_.requests(), 0);
  EXPECT_EQ(sentences("kubernetes.token_file"), 1);
  ::chmod((tree_ / "token").c_str(), 0600);
  pass(60);
  EXPECT_THAT(names(), ElementsAre("shop/web"));
}

TEST_F(TargetListerTest, WhoLooksOnceWaits) {
  build();
  const auto news = lister_->wait(0);
  ASSERT_EQ(news.size(), 1U);
  EXPECT_EQ(news[0].list.targets.size(), 1U);
}

}  // namespace
}  // namespace osml
