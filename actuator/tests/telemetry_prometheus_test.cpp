// Histograms of a text endpoint to percentiles of the last interval.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>

#include "domain/mixture.h"
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

TEST(Quantile, WithoutAFiniteBoundNothingIsKnownAndNotZero) {
  EXPECT_FALSE(quantile({{{infinity, 100}}, {}, {}}, 0.5));
  EXPECT_FALSE(quantile({{{0, 0}, {infinity, 100}}, {}, {}}, 0.5));
  EXPECT_DOUBLE_EQ(*quantile({{{0, 60}, {infinity, 100}}, {}, {}}, 0.5), 0) << "these took no time";
}

TEST(LatencyOf, WhatIsNotFiniteOrBelowZeroIsMissing) {
  const auto latency = latency_of({{{1e308, 100}, {infinity, 100}}, -5.0, 100.0}, 1000.0);
  ASSERT_TRUE(latency);
  EXPECT_FALSE(latency->p50_ms);
  EXPECT_FALSE(latency->p99_ms);
  EXPECT_FALSE(latency->mean_ms);
  EXPECT_EQ(latency->samples, 100U);
}

TEST(Difference, CountersThatWentBackwardsAreAReset) {
  EXPECT_FALSE(difference({{{1, 5}, {infinity, 9}}, {}, {}}, {{{1, 6}, {infinity, 9}}, {}, {}}));
  EXPECT_FALSE(difference({{{2, 7}, {infinity, 9}}, {}, {}}, {{{1, 6}, {infinity, 9}}, {}, {}}));
  const auto gained = difference({{{1, 7}, {infinity, 9}}, 4.0, 9.0}, {{{1, 6}, {infinity, 6}}, 1.0, 6.0});
  ASSERT_TRUE(gained);
  EXPECT_EQ(gained->buckets[0].count, 1);
  EXPECT_EQ(gained->sum, 3.0);
}

TEST(Difference, ABoundThatIsNewHadNothingAboveTheOneBelow) {
  const auto gained = difference({{{1, 7}, {2, 8}, {infinity, 12}}, {}, {}}, {{{1, 6}, {infinity, 10}}, {}, {}});
  ASSERT_TRUE(gained);
  EXPECT_EQ(gained->buckets[0].count, 1);
  EXPECT_EQ(gained->buckets[1].count, 2);
  EXPECT_EQ(gained->buckets[2].count, 2);
  EXPECT_FALSE(difference({{{1, 7}, {infinity, 12}}, {}, {}}, {{{1, 6}, {2, 7}, {infinity, 10}}, {}, {}}))
      << "a bound that has gone";
}

// A clock that was set back makes one latency negative.
TEST(Difference, ASumThatFallsHasNoMeanAndIsNoReset) {
  const auto gained = difference({{{1, 7}, {infinity, 9}}, 2.0, 9.0}, {{{1, 6}, {infinity, 6}}, 5.0, 6.0});
  ASSERT_TRUE(gained);
  EXPECT_FALSE(gained->sum);
  EXPECT_EQ(gained->buckets[1].count, 3);
}

TEST(Difference, GrowthThatFallsFromOneBoundToTheNextIsRaised) {
  const auto gained =
      difference({{{1, 10}, {2, 12}, {infinity, 12}}, {}, {}}, {{{1, 5}, {2, 8}, {infinity, 8}}, {}, {}});
  ASSERT_TRUE(gained);
  EXPECT_EQ(gained->buckets[1].count, 5);
  EXPECT_EQ(gained->buckets[2].count, 5);
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

// All that was ever observed, as after a start of every series.
Result<Histogram> total(std::string_view text, const std::map<std::string, std::string>& labels = {}) {
  const auto series = parse_histograms(text, "rt", labels);
  if (!series) return series.error();
  return gained_between({*series, {}}, {});
}

TEST(PrometheusText, LabelsSelectSeriesAndTheRestIsSummed) {
  const auto a = parse_histograms(exposition, "rt", {{"path", "/a"}});
  ASSERT_TRUE(a) << a.error().message;
  ASSERT_EQ(a->size(), 1U);
  const Histogram& series = a->begin()->second;
  EXPECT_EQ(series.buckets.size(), 2U);
  EXPECT_EQ(series.buckets[0].count, 10);
  EXPECT_TRUE(std::isinf(series.buckets[1].upper));
  EXPECT_EQ(series.sum, 3.5);
  EXPECT_EQ(series.count, 20);
  EXPECT_EQ(parse_histograms(exposition, "rt", {})->size(), 2U);
  EXPECT_EQ(total(exposition)->buckets[1].count, 22);
  EXPECT_EQ(total(exposition, {{"path", "/b \"x\""}})->buckets[1].count, 2);
}

TEST(PrometheusText, ErrorsSayWhatToCheck) {
  EXPECT_THAT(parse_histograms(exposition, "latency", {}).error().message, HasSubstr("no histogram 'latency'"));
  EXPECT_THAT(total(exposition, {{"path", "/c"}}).error().message, HasSubstr("check labels"));
  EXPECT_THAT(total("<html>hello").error().message, HasSubstr("begins with '<html>hello'"));
  EXPECT_FALSE(total("rt_bucket{le=\"0.1\" 5\n"));
  EXPECT_FALSE(total("rt_bucket{path=\"x\"} 5\n"));
  EXPECT_FALSE(total("rt_bucket{le=\"1\"} many\n"));
  EXPECT_FALSE(total(""));
}

TEST(PrometheusText, ABodyThatIsCutOffInTheHistogramIsRefusedAsAWhole) {
  const std::string line = "rt_bucket{le=\"+Inf\"} 1000";
  const std::string text = "rt_bucket{le=\"1\"} 10\n" + line;
  for (std::size_t missing = 0; missing + 2 < line.size(); ++missing) {
    EXPECT_FALSE(total(text.substr(0, text.size() - missing))) << missing;
  }
  EXPECT_THAT(total(text.substr(0, text.size() - 2)).error().message,
              HasSubstr("the body was cut off: its last line is 'rt_bucket{le=\"+Inf\"} 10', without an end"));
  EXPECT_TRUE(total(text + "\nother 5")) << "of what nobody asks for";
  EXPECT_TRUE(total(text + "\n# EOF"));
}

TEST(PrometheusText, BucketsThatAreNoLatenciesAreRefused) {
  for (const char* bound : {"-1", "-Inf", "NaN", "1e308", "x"}) {
    const std::string text = std::string("rt_bucket{le=\"") + bound + "\"} 5\nrt_bucket{le=\"+Inf\"} 5\n";
    EXPECT_THAT(total(text).error().message, HasSubstr("expected le from 0 to 1e18 or +Inf")) << bound;
  }
  for (const char* count : {"-1", "NaN", "+Inf", "1e300"}) {
    const std::string text = std::string("rt_bucket{le=\"1\"} ") + count + "\n";
    EXPECT_THAT(total(text).error().message, HasSubstr("a count from 0 to 1e15")) << count;
  }
  const auto torn = total("rt_bucket{le=\"1\"} 5\nrt_bucket{le=\"2\"} 4\n");  // read while the service wrote
  ASSERT_TRUE(torn) << torn.error().message;
  EXPECT_EQ(torn->buckets.back().count, 5);
  EXPECT_THAT(total("rt_bucket{le=\"1\"} 5\nrt_bucket{le=\"1.0\"} 5\n").error().message, HasSubstr("each bound once"));
}

// What a service serves that has native histograms only.
TEST(PrometheusText, AHistogramWithoutAFiniteBucketIsRefusedWithWhatToDo) {
  EXPECT_THAT(total("rt_bucket{le=\"+Inf\"} 5\nrt_sum 3\nrt_count 5\n").error().message,
              HasSubstr("'rt' has no finite bucket; give the histogram classic buckets"));
}

TEST(PrometheusText, ASumThatIsNoneIsMissing) {
  const auto read = total("rt_bucket{le=\"1\"} 5\nrt_sum NaN\nrt_count 5\n");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(read->sum);
}

TEST(PrometheusText, TabsBeforeATimeAndNamesInQuotes) {
  const auto read = total(
      "{\"my.metric\",path=\"/a\"} 7\n"
      "rt_bucket{\"my.label\"=\"x\",le=\"1\"}\t5\t1700000000\n"
      "rt_bucket{\"my.label\"=\"x\",le=\"+Inf\"} 6\n",
      {{"my.label", "x"}});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->buckets[1].count, 6);
}

TEST(PrometheusText, TooManySeriesAreRefused) {
  std::string text;
  for (std::size_t i = 0; i <= most_series_of_service; ++i)
    text += "rt_bucket{a=\"" + std::to_string(i) + "\",le=\"1\"} 1\n";
  EXPECT_THAT(total(text).error().message, HasSubstr("more than 4096 series; select some of them with labels"));
}

// The lines of one series with these counts at .1, .25 and +Inf.
std::string series(const std::string& name, std::array<int, 3> counts) {
  std::string text;
  const std::array<const char*, 3> bounds{"0.1", "0.25", "+Inf"};
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    text += "rt_bucket{pod=\"" + name + "\",le=\"" + bounds[i] + "\"} " + std::to_string(counts[i]) + "\n";
  }
  return text;
}

HistogramReading reading(const std::string& text) {
  const auto series = parse_histograms(text, "rt", {});
  EXPECT_TRUE(series) << series.error().message;
  return {series ? *series : ClassicSeries{}, {}};
}

TEST(GainedBetween, AResetOfOneSeriesCountsFromZeroAndIsNotHiddenByTheOthers) {
  const auto gained = gained_between(reading(series("a", {0, 100, 100}) + series("b", {6500, 6500, 6500})),
                                     reading(series("a", {0, 200, 200}) + series("b", {5000, 5000, 5000})));
  ASSERT_TRUE(gained) << gained.error().message;
  const auto latency = latency_of(*gained, 1000.0);
  EXPECT_EQ(latency->samples, 1600U);
  EXPECT_NEAR(*latency->p99_ms, 226, 1e-6);
}

TEST(GainedBetween, ANewSeriesCountsFromZero) {
  const auto before = reading(series("a", {10, 10, 10}));
  const auto after = reading(series("a", {10, 10, 10}) + series("b", {0, 30, 30}));
  EXPECT_EQ(gained_between(after, before)->buckets.back().count, 30);
}

// nginx-lua-prometheus makes a bucket with its first observation.
TEST(GainedBetween, ABoundThatIsNewIsNoReset) {
  const auto before =
      reading("rt_bucket{le=\"0.5\"} 900000\nrt_bucket{le=\"1\"} 1000000\nrt_bucket{le=\"+Inf\"} 1000000\n");
  const auto after = reading(
      "rt_bucket{le=\"0.2\"} 1\nrt_bucket{le=\"0.5\"} 900100\nrt_bucket{le=\"1\"} 1000100\n"
      "rt_bucket{le=\"+Inf\"} 1000100\n");
  const auto gained = gained_between(after, before);
  ASSERT_TRUE(gained) << gained.error().message;
  EXPECT_EQ(latency_of(*gained, 1000.0)->samples, 100U);
  EXPECT_EQ(gained->buckets[0].count, 1);
}

TEST(GainedBetween, ASeriesThatLostABoundIsABase) {
  const auto before = reading(series("a", {1000, 2000, 2000}));
  const auto after = reading("rt_bucket{pod=\"a\",le=\"0.25\"} 2100\nrt_bucket{pod=\"a\",le=\"+Inf\"} 2100\n");
  EXPECT_FALSE(latency_of(*gained_between(after, before), 1000.0));
}

TEST(GainedBetween, SeriesWithOtherBoundsAreMixedNotAdded) {
  const auto read = total(
      "rt_bucket{a=\"1\",le=\"0.1\"} 100\nrt_bucket{a=\"1\",le=\"+Inf\"} 100\n"
      "rt_bucket{a=\"2\",le=\"0.05\"} 10\nrt_bucket{a=\"2\",le=\"0.2\"} 10\nrt_bucket{a=\"2\",le=\"+Inf\"} 10\n");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_NEAR(*latency_of(*read, 1000.0)->p95_ms, 94.5, 1e-6);
}

TEST(GainedBetween, NothingGainedIsNoLatency) {
  const auto read = reading(exposition);
  EXPECT_FALSE(latency_of(*gained_between(read, read), 1000.0));
}

TEST(GainedBetween, TooManySetsOfBoundsAreAnError) {
  std::string text;
  for (std::size_t i = 0; i <= most_shapes; ++i) {
    text += "rt_bucket{a=\"" + std::to_string(i) + "\",le=\"" + std::to_string(i + 1) + "\"} 1\n";
  }
  EXPECT_THAT(total(text).error().message, HasSubstr("more than 16 different sets of bounds"));
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

TEST_F(PrometheusLatencyTest, AResetCountsFromZeroAndAnIdleIntervalHasNoLatency) {
  serve(100, 0, 1);
  (void)next();
  serve(5, 0, 0.1);
  EXPECT_EQ(next()->samples, 5U);
  EXPECT_THAT(next().error().message, HasSubstr("no request"));
  serve(15, 0, 0.2);
  EXPECT_EQ(next()->samples, 10U);
}

// As /federate answers where one target was not scraped.
TEST_F(PrometheusLatencyTest, ASeriesThatReturnsIsABase) {
  const auto both = [](int a, int b) { return series("a", {a, a, a}) + series("b", {b, b, b}); };
  serve(http(200, "text/plain", both(1000, 500000)));
  (void)next();
  serve(http(200, "text/plain", series("a", {1010, 1010, 1010})));
  EXPECT_EQ(next()->samples, 10U);
  serve(http(200, "text/plain", both(1020, 500100)));
  EXPECT_EQ(next()->samples, 10U);
  serve(http(200, "text/plain", both(1030, 500105) + series("c", {0, 7, 7})));
  EXPECT_EQ(next()->samples, 22U) << "and one that was never there counts from zero";
}

TEST_F(PrometheusLatencyTest, OneLostAnswerCostsOneInterval) {
  serve(100, 0, 1);
  (void)next();
  serve(http(503, "text/plain", "busy"));
  EXPECT_FALSE(next());
  serve(160, 0, 2);
  const auto latency = next();
  ASSERT_TRUE(latency) << latency.error().message;
  EXPECT_EQ(latency->samples, 60U);
  EXPECT_EQ(latency->requests_per_s, 15.0) << "over both intervals";
  serve(180, 0, 2);
  EXPECT_EQ(next()->requests_per_s, 10.0);
}

TEST_F(PrometheusLatencyTest, WhatCameWhileTheServiceWasAwayIsNotThisIntervals) {
  serve(100, 0, 1);
  (void)next();
  source_.forget({++turn_, 0, 2.0});
  serve(3100, 0, 2);
  EXPECT_THAT(next().error().message, HasSubstr("first reading"));
}

// As Envoy, which merges its histograms every 5 s.
TEST_F(PrometheusLatencyTest, WhatGrowsOnlyNowAndThenHasTheRateOfThatTime) {
  serve(100, 0, 1);
  (void)next();
  EXPECT_FALSE(next());
  EXPECT_FALSE(next());
  serve(160, 0, 2);
  EXPECT_EQ(next()->requests_per_s, 10.0);
  serve(180, 0, 2);
  EXPECT_EQ(next()->requests_per_s, 10.0);
}

TEST_F(PrometheusLatencyTest, HtmlIsOneClearErrorAndAfterALongGapTheNextReadingIsAFirstOne) {
  serve(100, 0, 1);
  (void)next();
  serve(http(200, "text/html", "<html>login"));
  EXPECT_THAT(next().error().message, HasSubstr("text/html beginning with '<html>login', expected Prometheus text"));
  serve(http(404, "text/plain", "no"));
  EXPECT_THAT(next().error().message, HasSubstr("answered HTTP 404"));
  EXPECT_FALSE(next());
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
  EXPECT_EQ((*scrape.answer(second, {1, 1.0, 1.0}))->body, "GET /second");
  EXPECT_EQ(scrape.add(server.url() + "/third"), first);
  EXPECT_EQ((*scrape.answer(first, {2, 2.0, 1.0}))->body, "GET /third");
}

TEST(MetricsScrapeTest, ServicesAtOneAddressShareItsAnswer) {
  const FakeServer server([](const std::string&) {
    return http(
        200, "text/plain",
        "rt_bucket{pod=\"a\",le=\"1\"} 1\nrt_bucket{pod=\"b\",le=\"1\"} 1\n" + std::string(6 << 20, '#') + "\n");
  });
  auto scrape = std::make_shared<MetricsScrape>(30.0);
  PrometheusLatency a({server.url() + "/metrics", "rt", {{"pod", "a"}}, 1000.0}, scrape);
  PrometheusLatency b({server.url() + "/metrics", "rt", {{"pod", "b"}}, 1000.0}, scrape);
  auto c = std::make_unique<PrometheusLatency>(PrometheusSource{server.url() + "/metrics", "rt", {}, 1000.0}, scrape);
  for (std::uint64_t turn = 1; turn <= 2; ++turn) {
    const char* const expected = turn == 1 ? "first reading" : "no request";
    EXPECT_THAT(a.read({turn, 0, 1}).error().message, HasSubstr(expected));
    EXPECT_THAT(b.read({turn, 0, 1}).error().message, HasSubstr(expected));
    EXPECT_THAT(c->read({turn, 0, 1}).error().message, HasSubstr(expected));
  }
  EXPECT_EQ(server.requests(), 2);
  c.reset();
  EXPECT_THAT(a.read({3, 0, 1}).error().message, HasSubstr("no request"));
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
  EXPECT_EQ((*answer)->body, "x 1\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << "one after the other takes 20 s";
}

}  // namespace
}  // namespace osml
