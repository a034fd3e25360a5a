// The generator against servers whose behaviour is known: what it must not hide, and what it must survive.
#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "fake_server.h"
#include "target.h"

namespace osml::loadgen {
namespace {

using std::chrono::microseconds;

class Queueing : public testing::Test {
 protected:
  Queueing() : epoll_(::epoll_create1(0)) {}
  ~Queueing() override { ::close(epoll_); }

  std::unique_ptr<Target> target(const FakeServer& server, double rate, unsigned connections,
                                 const std::string& protocol = "redis") {
    auto spec = parse_service("name=fake,protocol=" + protocol + ",address=" + server.address());
    spec->rate = rate;
    spec->connections = connections;
    return std::make_unique<Target>(*spec, 1, epoll_, 0, clock_now());
  }

  // The loop of Engine, for one target.
  void drive(Target& target, double seconds) const {
    const Nanos end = clock_now() + from_seconds(seconds);
    while (clock_now() < end) {
      target.advance(clock_now());
      std::array<epoll_event, 16> events{};
      const int count = ::epoll_wait(epoll_, events.data(), events.size(), 1);
      for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(std::max(count, 0)))) {
        target.on_event(static_cast<std::uint32_t>(event.data.u64), event.events);
      }
    }
  }

  int epoll_;
};

// 200 requests a second at a server that can do 100: after a second half of them still wait, the last for about half a
// second. A loop that counted from the send would report the 10 ms of service.
TEST_F(Queueing, CountsFromTheScheduledTimeWhenTheOnlyConnectionIsBusy) {
  const FakeServer server(microseconds(10'000));
  const auto slow = target(server, 200, 1);
  drive(*slow, 1.0);
  const auto line = nlohmann::json::parse(slow->interval_line(clock_now()));
  EXPECT_GT(line.at("p99_ms").get<double>(), 250.0);
  EXPECT_GT(line.at("waiting").get<int>(), 40);
  EXPECT_LT(line.at("requests_per_s").get<double>(), 110.0);
  EXPECT_LT(line.at("lateness_p50_ms").get<double>(), line.at("p99_ms").get<double>() / 2)
      << "waiting for the server is not the generator's lateness";
}

// A wrong port looks like a slow server in the latencies: the overdue requests count there.
TEST_F(Queueing, SaysThatNothingAnswers) {
  std::string nobody;
  {
    const FakeServer server(microseconds(0));
    nobody = server.address();
  }
  auto spec = parse_service("name=fake,protocol=redis,address=" + nobody);
  spec->rate = 100;
  Target lonely(*spec, 1, epoll_, 0, clock_now());
  drive(lonely, 0.2);
  EXPECT_EQ(lonely.silence(), "fake: no answer from " + nobody + " (Connection refused)");
  EXPECT_EQ(lonely.never_answered(), "fake: no answer from " + nobody + " (Connection refused)");
  EXPECT_EQ(lonely.silence(), std::nullopt);  // nothing has failed since

  spec->rate = 0;
  Target unasked(*spec, 1, epoll_, 1, clock_now());
  drive(unasked, 0.2);
  EXPECT_EQ(unasked.never_answered(), std::nullopt);

  const FakeServer server(microseconds(0));
  const auto good = target(server, 100, 1);
  drive(*good, 0.2);
  EXPECT_EQ(good->silence(), std::nullopt);
  EXPECT_EQ(good->never_answered(), std::nullopt);

  FakeServer mute(microseconds(0));  // takes connections and requests
  mute.stand_still(true);
  const auto waiting = target(mute, 100, 1);
  drive(*waiting, 0.2);  // far less than the time after which a request is given up
  EXPECT_NE(waiting->never_answered(), std::nullopt);
}

// A server without keep-alive ends each connection in order. The next request does not wait for a backoff.
TEST_F(Queueing, ConnectsAnewAtOnceWhereTheServerEndsConnectionsInOrder) {
  const FakeServer server(microseconds(0), "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
  const auto plain = target(server, 400, 2, "http");
  drive(*plain, 1.0);
  const auto line = nlohmann::json::parse(plain->interval_line(clock_now()));
  EXPECT_GT(line.at("requests_per_s").get<double>(), 300.0);  // two connections and 10 ms of backoff make at most 200
  EXPECT_EQ(line.at("errors").get<int>(), 0);
}

// What waits at a mark is no latency of that phase, so it is counted, and is a latency of the next one.
TEST_F(Queueing, SaysHowManyHaveNoAnswerAtAMark) {
  const FakeServer server(microseconds(10'000));
  const auto slow = target(server, 200, 1);
  drive(*slow, 1.0);
  const auto phase = slow->phase(clock_now());
  EXPECT_GT(phase.at("unanswered").get<int>(), 40);
  slow->set_rate(0.0, clock_now());
  double longest = 0.0;
  int waiting = phase.at("unanswered").get<int>();
  for (int look = 0; waiting > 0 && look < 200; ++look) {
    drive(*slow, 0.1);
    const auto late = slow->phase(clock_now());
    if (!late.at("p99_ms").is_null()) longest = std::max(longest, late.at("p99_ms").get<double>());
    waiting = late.at("unanswered").get<int>();
  }
  EXPECT_EQ(waiting, 0);
  EXPECT_GT(longest, phase.at("p99_ms").get<double>());
}

// Nobody waits for an answer for ever; those are errors that a phase tells apart from refusals.
TEST_F(Queueing, CountsWhatItGivesUp) {
  FakeServer server(microseconds(100));
  const auto stuck = target(server, 100, 2);
  drive(*stuck, 0.2);
  server.stand_still(true);
  drive(*stuck, 0.3);
  stuck->set_rate(0.0, clock_now());
  const auto before = stuck->phase(clock_now());
  ASSERT_GT(before.at("unanswered").get<int>(), 5);
  EXPECT_EQ(before.at("given_up").get<int>(), 0);
  stuck->advance(clock_now() + 11 * kSecond);
  const auto after = stuck->phase(clock_now());
  EXPECT_EQ(after.at("given_up").get<int>(), before.at("unanswered").get<int>());
  EXPECT_EQ(after.at("errors").get<int>(), after.at("given_up").get<int>());
  EXPECT_EQ(after.at("unanswered").get<int>(), 0);
}

TEST_F(Queueing, MeasuresTheServiceTimeWhereThereIsNoQueue) {
  const FakeServer server(microseconds(2000));
  const auto quick = target(server, 20, 4);
  drive(*quick, 1.0);
  const auto line = nlohmann::json::parse(quick->interval_line(clock_now()));
  EXPECT_GT(line.at("p50_ms").get<double>(), 2.0);
  EXPECT_LT(line.at("p50_ms").get<double>(), 200.0);
  EXPECT_EQ(line.at("errors").get<int>(), 0);
}

TEST_F(Queueing, ShowsAServerThatStandsStill) {
  FakeServer server(microseconds(100));
  const auto stuck = target(server, 100, 2);
  drive(*stuck, 0.2);
  server.stand_still(true);
  drive(*stuck, 0.1);
  stuck->interval_line(clock_now());
  drive(*stuck, 0.3);
  stuck->interval_line(clock_now());
  drive(*stuck, 0.3);
  const auto line = nlohmann::json::parse(stuck->interval_line(clock_now()));
  EXPECT_EQ(line.at("requests_per_s").get<double>(), 0.0);
  ASSERT_FALSE(line.at("p99_ms").is_null());
  EXPECT_GT(line.at("p99_ms").get<double>(), 300.0);
}

TEST_F(Queueing, CountsALostServerAsErrorsAndComesBack) {
  FakeServer server(microseconds(1000));
  const auto shaken = target(server, 200, 2);
  drive(*shaken, 0.3);
  shaken->interval_line(clock_now());
  server.hang_up();
  drive(*shaken, 0.5);
  EXPECT_GT(nlohmann::json::parse(shaken->interval_line(clock_now())).at("samples").get<int>(), 0);
  nlohmann::json after;
  for (int interval = 0; interval < 100; ++interval) {
    drive(*shaken, 0.3);
    after = nlohmann::json::parse(shaken->interval_line(clock_now()));
    if (after.at("requests_per_s").get<double>() > 100.0 && after.at("errors").get<int>() == 0) return;
  }
  FAIL() << "it never came back: " << after;
}

TEST_F(Queueing, HasNoLatencyButErrorsWhereNobodyListens) {
  auto spec = parse_service("name=fake,protocol=redis,address=127.0.0.1:1");
  spec->rate = 100;
  Target lonely(*spec, 1, epoll_, 0, clock_now());
  drive(lonely, 0.3);
  const auto line = nlohmann::json::parse(lonely.interval_line(clock_now()));
  EXPECT_GT(line.at("errors").get<int>(), 0);
  EXPECT_EQ(line.at("requests_per_s").get<double>(), 0.0);
}

TEST_F(Queueing, TakesNonsenseForAnError) {
  const FakeServer server(microseconds(100), "HTTP/1.1 400 Bad Request\r\n\r\n");
  const auto confused = target(server, 100, 2);
  drive(*confused, 0.3);
  const auto line = nlohmann::json::parse(confused->interval_line(clock_now()));
  EXPECT_GT(line.at("errors").get<int>(), 0);
  EXPECT_EQ(line.at("requests_per_s").get<double>(), 0.0);
}

TEST_F(Queueing, MarksAPhaseAcrossIntervals) {
  const FakeServer server(microseconds(500));
  const auto steady = target(server, 100, 2);
  drive(*steady, 0.3);
  const auto first = nlohmann::json::parse(steady->interval_line(clock_now()));
  drive(*steady, 0.3);
  const auto second = nlohmann::json::parse(steady->interval_line(clock_now()));
  const auto phase = steady->phase(clock_now());
  // Not `samples`: a request that is still open at the end of an interval is one of each that it is open in.
  const auto answered = [](const nlohmann::json& line) {
    return line.at("requests_per_s").get<double>() * line.at("interval_s").get<double>();
  };
  EXPECT_NEAR(answered(phase), answered(first) + answered(second), 0.5);
  EXPECT_GT(answered(second), 0);
  EXPECT_GT(phase.at("interval_s").get<double>(), 0.6);
}

}  // namespace
}  // namespace osml::loadgen
