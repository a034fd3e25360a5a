// Histograms of a text endpoint to percentiles of the last interval.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>

#include "fake_server.h"
#include "telemetry/latency_sources.h"
#include "telemetry/prometheus_text.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing_support::FakeServer;
using testing_support::http;
using testing_support::without_length;

const double infinity = std::numeric_limits<double>::infinity();

TEST(Quantile, InterpolatesWithinTheBucket) {
  const Histogram histogram{{{0.1, 50}, {0.2, 100}, {infinity, 100}}, {}, {}};
  EXPECT_DOUBLE_EQ(*quantile(histogram, 0.25), 0.05);
  EXPECT_DOUBLE_EQ(*quantile(histogram, 0.75), 0.15);
  EXPECT_DOUBLE_EQ(*quantile(histogram, 0.99), 0.198);
}

TEST(Quantile, BeyondTheLastBoundIsThatBound) {
  const Histogram histogram{{{0.1, 50}, {infinity, 100}}, {}, {}};
  EXPECT_DOUBLE_EQ(*quantile(histogram, 0.99), 0.1);
}

TEST(Quantile, NothingObservedIsNoLatency) {
  EXPECT_FALSE(quantile({{{0.1, 0}, {infinity, 0}}, {}, {}}, 0.5));
  EXPECT_FALSE(quantile({}, 0.5));
}

TEST(Difference, CountersThatWentBackwardsAreAReset) {
  EXPECT_FALSE(difference({{{1, 5}, {infinity, 9}}, {}, {}}, {{{1, 6}, {infinity, 9}}, {}, {}}));
  EXPECT_FALSE(difference({{{2, 7}, {infinity, 9}}, {}, {}}, {{{1, 6}, {infinity, 9}}, {}, {}}));
  const auto gained = difference({{{1, 7}, {infinity, 9}}, 4.0, 9.0}, {{{1, 6}, {infinity, 6}}, 1.0, 6.0});
  ASSERT_TRUE(gained);
  EXPECT_EQ(gained->buckets[0].count, 1);
  EXPECT_EQ(gained->sum, 3.0);
}

const std::string exposition = R"(# HELP rt Response time.
# TYPE rt histogram
rt_bucket{path="/a",le="0.1"} 10
rt_bucket{path="/a",le="+Inf"} 20
rt_bucket{path="/b \"x\"",le="0.1"} 1 1700000000
rt_bucket{path="/b \"x\"",le="+Inf"} 2
rt_sum{path="/a"} 3.5
rt_count{path="/a"} 20
other_metric 5
)";

TEST(PrometheusText, LabelsSelectSeriesAndTheRestIsSummed) {
  const auto a = parse_histogram(exposition, "rt", {{"path", "/a"}});
  ASSERT_TRUE(a) << a.error().message;
  EXPECT_EQ(a->buckets.size(), 2U);
  EXPECT_EQ(a->buckets[0].count, 10);
  EXPECT_TRUE(std::isinf(a->buckets[1].upper));
  EXPECT_EQ(a->sum, 3.5);
  EXPECT_EQ(parse_histogram(exposition, "rt", {})->buckets[1].count, 22);
  EXPECT_EQ(parse_histogram(exposition, "rt", {{"path", "/b \"x\""}})->buckets[1].count, 2);
}

TEST(PrometheusText, ErrorsSayWhatToCheck) {
  EXPECT_THAT(parse_histogram(exposition, "latency", {}).error().message, HasSubstr("no histogram 'latency'"));
  EXPECT_THAT(parse_histogram(exposition, "rt", {{"path", "/c"}}).error().message, HasSubstr("check labels"));
  EXPECT_THAT(parse_histogram("<html>hello", "rt", {}).error().message, HasSubstr("begins with '<html>hello'"));
  EXPECT_FALSE(parse_histogram("rt_bucket{le=\"0.1\" 5\n", "rt", {}));
  EXPECT_FALSE(parse_histogram("rt_bucket{path=\"x\"} 5\n", "rt", {}));
  EXPECT_FALSE(parse_histogram("rt_bucket{le=\"1\"} many\n", "rt", {}));
  EXPECT_FALSE(parse_histogram("", "rt", {}));
}

class PrometheusLatencyTest : public testing::Test {
 protected:
  void serve(const std::string& answer) {
    const std::lock_guard lock(mutex_);
    answer_ = answer;
  }
  void serve(int fast, int slow, double sum) {
    serve(http(200, "text/plain; version=0.0.4",
               "rt_bucket{le=\"0.01\"} " + std::to_string(fast) + "\nrt_bucket{le=\"0.1\"} " +
                   std::to_string(fast + slow) + "\nrt_bucket{le=\"+Inf\"} " + std::to_string(fast + slow) +
                   "\nrt_sum " + std::to_string(sum) + "\nrt_count " + std::to_string(fast + slow) + "\n"));
  }
  Result<Latency> next() { return source_.read({++turn_, 0, 2.0}); }

  std::mutex mutex_;
  std::string answer_;
  std::uint64_t turn_ = 0;
  FakeServer server_{[this](const std::string& /*request*/) {
    const std::lock_guard lock(mutex_);
    return answer_;
  }};
  PrometheusLatency source_{{server_.url() + "/metrics", "rt", {}, 1000.0}, std::make_shared<MetricsScrape>(2.0)};
};

TEST_F(PrometheusLatencyTest, PercentilesAreOfTheLastInterval) {
  serve(1000000, 0, 5000);
  EXPECT_THAT(next().error().message, HasSubstr("first reading"));
  serve(1000050, 50, 5001);
  const auto latency = next();
  ASSERT_TRUE(latency) << latency.error().message;
  EXPECT_DOUBLE_EQ(*latency->p50_ms, 10.0);
  EXPECT_NEAR(*latency->p99_ms, 98.2, 1e-9);
  EXPECT_DOUBLE_EQ(*latency->mean_ms, 10.0);
  EXPECT_EQ(latency->samples, 100U);
  EXPECT_EQ(latency->requests_per_s, 50.0);
}

TEST_F(PrometheusLatencyTest, ResetAndIdleHaveNoLatency) {
  serve(100, 0, 1);
  (void)next();
  serve(5, 0, 0.1);
  EXPECT_THAT(next().error().message, HasSubstr("reset"));
  EXPECT_THAT(next().error().message, HasSubstr("no request"));
  serve(15, 0, 0.2);
  EXPECT_TRUE(next());
}

TEST_F(PrometheusLatencyTest, HtmlIsOneClearErrorAndTheNextReadingIsAFirstOne) {
  serve(100, 0, 1);
  (void)next();
  serve(http(200, "text/html", "<html>login"));
  EXPECT_THAT(next().error().message, HasSubstr("text/html beginning with '<html>login', expected Prometheus text"));
  serve(http(404, "text/plain", "no"));
  EXPECT_THAT(next().error().message, HasSubstr("answered HTTP 404"));
  serve(200, 0, 2);
  EXPECT_THAT(next().error().message, HasSubstr("first reading"));
}

// Of a pod that names its own endpoint: whatever it answers costs the others nothing and leads nowhere else.
TEST(MetricsScrapeTest, WhatAPodAnswersIsBoundedAndLeadsNowhere) {
  std::atomic<int> followed = 0;
  const FakeServer other([&](const std::string&) {
    ++followed;
    return http(200, "text/plain", "x 1\n");
  });
  const FakeServer elsewhere([&](const std::string&) {
    return "HTTP/1.1 302 Found\r\nLocation: " + other.url() + "/\r\nContent-Length: 0\r\n\r\n";
  });
  const std::string long_text(300 << 10, 'x');
  const FakeServer pod([&](const std::string& request) {
    return request.find("/endless") == std::string::npos ? http(200, "text/plain", long_text)
                                                         : without_length("text/plain", long_text);
  });
  auto scrape = std::make_shared<MetricsScrape>(2.0);
  const std::size_t large = scrape->add(pod.url() + "/large", true);
  PrometheusLatency redirected({elsewhere.url() + "/there", "rt", {}, 1000.0, true}, scrape);
  const Interval interval{1, 1.0, 1.0};
  EXPECT_THAT(scrape->answer(large, interval).error().message, HasSubstr("the answer is longer than 262144 bytes"));
  scrape->remove(large);
  const std::size_t endless = scrape->add(pod.url() + "/endless", true);
  EXPECT_THAT(scrape->answer(endless, {2, 2.0, 1.0}).error().message,
              HasSubstr("the answer is longer than 262144 bytes"));
  scrape->remove(endless);
  const std::size_t own = scrape->add(pod.url() + "/large");
  EXPECT_TRUE(scrape->answer(own, {3, 3.0, 1.0})) << "the operator's may be as long";
  EXPECT_THAT(redirected.read({3, 3.0, 1.0}).error().message, HasSubstr("answered HTTP 302"));
  EXPECT_EQ(followed, 0);
}

TEST(MetricsScrapeTest, APlaceThatWasGivenBackIsGivenAgain) {
  const FakeServer server(
      [](const std::string& request) { return http(200, "text/plain", request.substr(0, request.find(' ', 5))); });
  MetricsScrape scrape(2.0);
  const std::size_t first = scrape.add(server.url() + "/first");
  const std::size_t second = scrape.add(server.url() + "/second", true);
  scrape.remove(first);
  EXPECT_EQ(scrape.answer(second, {1, 1.0, 1.0})->body, "GET /second");
  EXPECT_EQ(scrape.add(server.url() + "/third"), first);
  EXPECT_EQ(scrape.answer(first, {2, 2.0, 1.0})->body, "GET /third");
}

TEST(MetricsScrapeTest, TenEndpointsThatHangCostAsMuchAsOne) {
  const FakeServer hung([](const std::string&) { return std::string(); });
  const FakeServer good([](const std::string&) { return http(200, "text/plain", "x 1\n"); });
  MetricsScrape scrape(2.0);
  for (int endpoint = 0; endpoint < 10; ++endpoint) (void)scrape.add(hung.url() + "/" + std::to_string(endpoint));
  const std::size_t last = scrape.add(good.url() + "/metrics");
  const auto start = std::chrono::steady_clock::now();
  const Interval interval{1, 1.0, 1.0};
  EXPECT_FALSE(scrape.answer(0, interval));
  const auto answer = scrape.answer(last, interval);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "x 1\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << "one after the other takes 20 s";
}

}  // namespace
}  // namespace osml
