#include "interval.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace osml::latency {
namespace {

nlohmann::json line_of(Interval& interval, double length_s = 1.0) {
  const auto line = interval.take(length_s);
  return line ? nlohmann::json::parse(*line) : nlohmann::json();
}

TEST(Interval, PercentilesAreThoseOfTheNearestRank) {
  Interval interval;
  for (int k = 1000; k >= 1; --k) interval.add({static_cast<double>(k), 1});
  const auto line = line_of(interval, 2.0);
  EXPECT_EQ(line["p50_ms"], 500.0);
  EXPECT_EQ(line["p95_ms"], 950.0);
  EXPECT_EQ(line["p99_ms"], 990.0);
  EXPECT_EQ(line["mean_ms"], 500.5);
  EXPECT_EQ(line["samples"], 1000);
  EXPECT_EQ(line["requests_per_s"], 500.0);
}

TEST(Interval, OneRequestIsAllPercentiles) {
  Interval interval;
  interval.add({7.0, 1});
  const auto line = line_of(interval);
  EXPECT_EQ(line["p50_ms"], 7.0);
  EXPECT_EQ(line["p99_ms"], 7.0);
}

TEST(Interval, WithoutARequestThereIsNoLineAndEachIntervalBeginsAnew) {
  Interval interval;
  EXPECT_FALSE(interval.take(1.0));
  interval.add({7.0, 1});
  EXPECT_TRUE(interval.take(1.0));
  EXPECT_FALSE(interval.take(1.0));
}

TEST(Interval, RequestsThatAClientLeftOutCountInTheRateAndTheMean) {
  Interval interval;
  interval.add({10.0, 9});
  interval.add({110.0, 1});
  const auto line = line_of(interval);
  EXPECT_EQ(line["requests_per_s"], 10.0);
  EXPECT_EQ(line["mean_ms"], 20.0);
  EXPECT_EQ(line["samples"], 2);
}

TEST(Interval, RequestsThatAClientLeftOutCountInThePercentiles) {
  Interval interval;
  for (int k = 0; k < 100; ++k) interval.add({1.0, 10});
  for (int k = 0; k < 50; ++k) interval.add({100.0, 1});
  const auto line = line_of(interval);
  EXPECT_EQ(line["p50_ms"], 1.0);
  EXPECT_EQ(line["p95_ms"], 1.0);
  EXPECT_EQ(line["p99_ms"], 100.0);
  EXPECT_EQ(line["samples"], 150);
}

TEST(Interval, ASampleOfTooManyKeepsTheirWeights) {
  Interval interval;
  for (std::size_t k = 0; k < 2 * Interval::most_kept; ++k) {
    interval.add(k % 2 == 0 ? Request{1.0, 99} : Request{100.0, 1});
  }
  const auto line = line_of(interval);
  EXPECT_EQ(line["p95_ms"], 1.0);
}

TEST(Interval, OfTooManyASampleIsKeptThatIsTheSameForTheSameSeed) {
  Interval one(3);
  Interval other(3);
  for (std::size_t k = 0; k < 3 * Interval::most_kept; ++k) {
    const double latency_ms = static_cast<double>(k % 1000);  // in any part of it, all latencies are there
    one.add({latency_ms, 1});
    other.add({latency_ms, 1});
  }
  const auto line = line_of(one);
  EXPECT_EQ(line, line_of(other));
  EXPECT_EQ(line["samples"], 3 * Interval::most_kept);
  EXPECT_NEAR(line["p50_ms"], 500, 10);
  EXPECT_NEAR(line["p99_ms"], 990, 3);
}

}  // namespace
}  // namespace osml::latency
