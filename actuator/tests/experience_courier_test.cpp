// The way to the server as it may be: good, slow, busy, too small, without the route, gone. Time is the test's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>

#include "experience/courier.h"
#include "fake_server.h"

namespace osml {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::FakeServer;
using testing_support::http;

const std::string accepted = http(202, "application/json", R"({"accepted":1,"duplicates":0})");

Experience experience(int number, std::size_t padding = 0) {
  const auto text = std::make_shared<const std::string>(json{{"seq", number}, {"x", std::string(padding, 'x')}}.dump());
  return {text, "{}", text};
}

class ExperienceCourierTest : public testing::Test {
 protected:
  std::string answer_with(const std::string& request) {
    const std::scoped_lock lock(mutex_);
    requests_.push_back(request);
    if (wrong_ && request.find("\"seq\":" + std::to_string(*wrong_) + ",") != std::string::npos) {
      return http(422, "application/json", R"({"error":{"code":"invalid","message":"experiences[0]: odd"}})");
    }
    if (answers_.empty()) return accepted;
    const std::string answer = answers_.front();
    if (answers_.size() > 1) answers_.erase(answers_.begin());
    return answer;
  }
  std::vector<int> seen(std::size_t request) {
    const std::scoped_lock lock(mutex_);
    const std::string& text = requests_.at(request);
    std::vector<int> numbers;
    const json body = json::parse(text.substr(text.find("\r\n\r\n") + 4));
    for (const json& each : body.at("experiences")) {
      numbers.push_back(each.at("before").at("seq"));
    }
    return numbers;
  }
  void fill(int count, std::size_t padding = 0) {
    for (int i = 0; i < count; ++i) buffer_.push(experience(next_++, padding));
  }
  // One turn: sends what is due and carries it to its end; true where something was sent.
  bool turn(double now_s) {
    const int before = server_.requests();
    courier_->send_due(now_s);
    pollfd waiting{courier_->fd(), POLLIN, 0};
    while (courier_->under_way() && ::poll(&waiting, 1, 5000) > 0) courier_->carry(now_s);
    return server_.requests() > before;
  }
  void build(const std::string& url, CourierLimits limits = {}, const std::string& token = "") {
    ServerConfig server;
    server.url = url;
    courier_.emplace(server, token, buffer_, 0.0, 10.0, limits);
  }

  std::mutex mutex_;
  std::vector<std::string> answers_;
  std::vector<std::string> requests_;
  std::optional<int> wrong_;  // the server refuses every batch with this one
  FakeServer server_{[this](const std::string& request) { return answer_with(request); }};
  ExperienceBuffer buffer_;
  std::optional<ExperienceCourier> courier_;
  int next_ = 0;
};

TEST_F(ExperienceCourierTest, ABatchNowAndThenOverOneConnection) {
  build(server_.url(), {}, "secret");
  EXPECT_FALSE(turn(10)) << "nothing to send";
  fill(3);
  EXPECT_FALSE(turn(9.9));
  EXPECT_TRUE(turn(10));
  fill(2);
  EXPECT_FALSE(turn(39));
  EXPECT_TRUE(turn(40));
  EXPECT_EQ(seen(0), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(seen(1), (std::vector<int>{3, 4}));
  EXPECT_THAT(requests_[0], HasSubstr("POST /v1/experiences HTTP/1.1"));
  EXPECT_THAT(requests_[0], HasSubstr("Authorization: Bearer secret"));
  EXPECT_EQ(server_.connections(), 1);
  EXPECT_EQ(courier_->sent(), 5U);
  EXPECT_EQ(buffer_.size(), 0U);
}

TEST_F(ExperienceCourierTest, AFullBatchDoesNotWaitAndNoneIsLargerThanAllowed) {
  build(server_.url(), {.max_bytes = 8192});
  fill(40, 400);
  int turns = 0;
  while (turn(0.1 * turns)) ++turns;
  EXPECT_GT(turns, 3);
  EXPECT_LT(buffer_.bytes(), 8192U) << "the rest waits for its time";
  for (const std::string& request : requests_) EXPECT_LE(request.size() - request.find("\r\n\r\n") - 4, 8192U);
}

TEST_F(ExperienceCourierTest, AServerWithoutTheRouteIsAskedOnce) {
  answers_ = {http(404, "application/json", R"({"error":{"code":"not_found","message":"no such route"}})")};
  build(server_.url());
  fill(3);
  EXPECT_TRUE(turn(10));
  EXPECT_TRUE(buffer_.closed());
  EXPECT_EQ(buffer_.dropped(), 3U);
  fill(300);
  for (int t = 11; t < 4000; t += 100) EXPECT_FALSE(turn(t));
  EXPECT_EQ(courier_->refused(), 0U);
}

TEST_F(ExperienceCourierTest, RetryAfterIsRespectedAndBounded) {
  answers_ = {http(503, "text/plain", "busy", "Retry-After: 100\r\n"),
              http(429, "text/plain", "busy", "Retry-After: 1000000\r\n"), accepted};
  build(server_.url());
  fill(2);
  EXPECT_TRUE(turn(10));
  EXPECT_FALSE(turn(109));
  EXPECT_TRUE(turn(110));
  EXPECT_FALSE(turn(709));
  EXPECT_TRUE(turn(710));
  EXPECT_EQ(seen(2), (std::vector<int>{0, 1})) << "kept until they are taken";
  EXPECT_EQ(courier_->sent(), 2U);
}

TEST_F(ExperienceCourierTest, FailuresAreFurtherAndFurtherApart) {
  answers_ = {http(500, "text/plain", "oops")};
  build(server_.url());
  fill(2);
  std::vector<double> attempts;
  for (int t = 0; t < 3000; t += 10) {
    if (turn(t)) attempts.push_back(t);
  }
  EXPECT_EQ(attempts, (std::vector<double>{10, 40, 100, 220, 460, 940, 1540, 2140, 2740}));
  answers_ = {accepted};
  EXPECT_TRUE(turn(3400));
  fill(1);
  EXPECT_TRUE(turn(3430));
}

TEST_F(ExperienceCourierTest, ABatchThatIsTooLargeIsHalvedAndALoneOneIsGivenUp) {
  const std::string too_large = http(413, "application/json", "{}");
  answers_ = {too_large, too_large, too_large, accepted};
  build(server_.url());
  fill(5);
  for (double t = 10; t < 14; ++t) turn(t);
  EXPECT_EQ(seen(0).size(), 5U);
  EXPECT_EQ(seen(1).size(), 2U);
  EXPECT_EQ(seen(2).size(), 1U);
  EXPECT_EQ(courier_->refused(), 1U);
  EXPECT_TRUE(turn(60));
  EXPECT_EQ(seen(3), (std::vector<int>{1}));
}

TEST_F(ExperienceCourierTest, BatchesThatWereHalvedGrowBack) {
  const std::string too_large = http(413, "application/json", "{}");
  const std::string wrong = http(422, "application/json", R"({"error":{"code":"invalid","message":"odd"}})");
  answers_ = {wrong, too_large, too_large, accepted};
  build(server_.url());
  fill(256);
  std::vector<std::size_t> sizes;
  for (double t = 10; turn(t); ++t) sizes.push_back(seen(sizes.size()).size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{256, 128, 64, 32, 64, 128, 32}));
  EXPECT_EQ(courier_->sent(), 256U);
}

TEST_F(ExperienceCourierTest, WhatAProxySaysThrowsNothingAway) {
  const std::string in_words = R"({"error":{"code":"slow","message":"the body did not come"}})";
  answers_ = {http(408, "text/html", "<h1>408</h1>"),  http(409, "text/html", "<h1>409</h1>"),
              http(425, "application/json", in_words), http(408, "application/json", in_words),
              http(431, "text/html", "<h1>431</h1>"),  http(499, "text/plain", ""),
              http(422, "text/html", "<h1>422</h1>"),  accepted};
  build(server_.url());
  fill(2);
  int attempts = 0;
  for (double t = 10; t < 5000; t += 10) attempts += turn(t) ? 1 : 0;
  EXPECT_EQ(attempts, 8);
  EXPECT_EQ(courier_->sent(), 2U);
  EXPECT_EQ(courier_->refused(), 0U);
}

TEST(BatchFateTest, OnlyTheServerRefuses) {
  const auto fate = [](long status, const std::string& body) { return fate_of({status, "", body, {}}); };
  const std::string own = R"({"error":{"message":"no"}})";
  EXPECT_EQ(fate(202, ""), BatchFate::Taken);
  EXPECT_EQ(fate(415, own), BatchFate::Refused);
  EXPECT_EQ(fate(415, "<h1>no</h1>"), BatchFate::Later);
  EXPECT_EQ(fate(422, own), BatchFate::Wrong);
  EXPECT_EQ(fate(404, own), BatchFate::Never);
  EXPECT_EQ(fate(413, ""), BatchFate::TooMuch);
  EXPECT_EQ(fate(401, own), BatchFate::NotNow);
  EXPECT_EQ(fate(503, own), BatchFate::Later);
  EXPECT_EQ(fate(302, own), BatchFate::Later);
}

TEST_F(ExperienceCourierTest, AWrongExperienceIsGivenUpAndTheNextOneGetsItsChance) {
  wrong_ = 0;
  build(server_.url());
  fill(1);
  EXPECT_TRUE(turn(10));
  EXPECT_EQ(courier_->refused(), 1U);
  fill(1);
  EXPECT_FALSE(turn(39));
  EXPECT_TRUE(turn(40));
  EXPECT_EQ(seen(1), (std::vector<int>{1}));
}

TEST_F(ExperienceCourierTest, AWrongExperienceDoesNotTakeItsBatchAlong) {
  wrong_ = 3;
  build(server_.url());
  fill(8);
  for (double t = 10; t < 60; ++t) turn(t);
  EXPECT_EQ(courier_->refused(), 1U);
  EXPECT_EQ(courier_->sent(), 7U);
  EXPECT_EQ(buffer_.size(), 0U);
  EXPECT_LT(server_.requests(), 12) << "by halves, not one by one";
}

TEST_F(ExperienceCourierTest, A404OfAProxyIsAFailureLikeOthers) {
  answers_ = {http(404, "text/html", "<h1>default backend - 404</h1>"), accepted};
  build(server_.url());
  fill(2);
  EXPECT_TRUE(turn(10));
  EXPECT_FALSE(buffer_.closed());
  EXPECT_FALSE(turn(39));
  EXPECT_TRUE(turn(40));
  EXPECT_EQ(courier_->sent(), 2U);
}

TEST_F(ExperienceCourierTest, ASilentServerNeverHoldsTheAgentUp) {
  answers_ = {""};
  build(server_.url(), {.timeout_s = 3});
  fill(2, 60000);
  const auto begun = std::chrono::steady_clock::now();
  courier_->send_due(10);
  courier_->carry(10);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(2500));
  turn(10);  // until it gives up
  EXPECT_FALSE(turn(39)) << "the silence counts as a failure";
  EXPECT_EQ(buffer_.size(), 2U);
}

TEST_F(ExperienceCourierTest, NobodyListensAndTheBufferStaysBounded) {
  build("http://127.0.0.1:1");
  for (int t = 0; t < 2000; ++t) {
    fill(1, 5000);
    turn(t);
  }
  EXPECT_LE(buffer_.bytes(), std::size_t{4} << 20U);
  EXPECT_GT(buffer_.dropped(), 0U);
  EXPECT_EQ(courier_->sent(), 0U);
}

TEST_F(ExperienceCourierTest, EachExperienceCountsOnceAlsoIfItIsDroppedInMidUpload) {
  build(server_.url());
  fill(3, 60000);
  courier_->send_due(10);
  fill(100, 60000);  // more than the buffer has room for: what is being sent goes first
  pollfd waiting{courier_->fd(), POLLIN, 0};
  while (courier_->under_way() && ::poll(&waiting, 1, 5000) > 0) courier_->carry(10);
  ASSERT_GT(buffer_.dropped(), 3U);
  EXPECT_EQ(courier_->sent() + buffer_.dropped() + buffer_.size(), 103U);
}

TEST_F(ExperienceCourierTest, AnEndInMidUploadIsClean) {
  answers_ = {""};
  build(server_.url());
  fill(1);
  courier_->send_due(10);
  courier_->carry(10);
  courier_.reset();
}

TEST_F(ExperienceCourierTest, CountsGoOnOverAReload) {
  build(server_.url());
  fill(4);
  EXPECT_TRUE(turn(10));
  wrong_ = 4;
  fill(1);
  EXPECT_TRUE(turn(41));
  EXPECT_EQ(courier_->sent(), 4U);
  EXPECT_EQ(courier_->refused(), 1U);
  ExperienceBuffer buffer;
  ServerConfig config;
  config.url = server_.url();
  ExperienceCourier after(config, "", buffer, 100.0, 10.0);
  after.take_over(*courier_);
  EXPECT_EQ(after.sent(), 4U);
  EXPECT_EQ(after.refused(), 1U);
}

}  // namespace
}  // namespace osml
