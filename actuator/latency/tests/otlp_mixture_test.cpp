#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "otlp/mixture.h"

namespace osml::latency::otlp {
namespace {

const double infinity = std::numeric_limits<double>::infinity();

Histogram of(std::vector<Bucket> buckets) {
  const double count = buckets.back().count;
  return {std::move(buckets), count * 2, count};
}

TEST(Mixture, HistogramsOfTheSameBoundsAreAddedAndTheRuleIsTheAgents) {
  Mixture mixture;
  EXPECT_TRUE(mixture.add(of({{10, 50}, {20, 80}, {infinity, 100}})));
  EXPECT_TRUE(mixture.add(of({{10, 0}, {20, 20}, {infinity, 100}})));
  const auto latency = mixture.take();
  ASSERT_TRUE(latency);
  EXPECT_EQ(*latency, *latency_of(of({{10, 50}, {20, 100}, {infinity, 200}}), 1.0));
  EXPECT_EQ(*latency->p99_ms, 20);  // beyond the last bound
  EXPECT_FALSE(mixture.take());
}

TEST(Mixture, DifferentBoundsGiveThePercentilesOfAllObservations) {
  // 100 evenly in (0, 10], 100 evenly in (5, 15]
  const Histogram mixed = mix({of({{10, 100}, {infinity, 100}}), of({{5, 0}, {15, 100}, {infinity, 100}})});
  EXPECT_DOUBLE_EQ(*quantile(mixed, 0.25), 5);
  EXPECT_DOUBLE_EQ(*quantile(mixed, 0.5), 7.5);
  EXPECT_DOUBLE_EQ(*quantile(mixed, 0.875), 12.5);
  EXPECT_EQ(*mixed.count, 200);
  EXPECT_EQ(*mixed.sum, 400);
}

TEST(Mixture, WhatIsBeyondABoundStaysAtItEvenWhereOthersHaveHigherBounds) {
  const Histogram mixed = mix({of({{1, 0}, {infinity, 90}}), of({{1, 0}, {100, 10}, {infinity, 10}})});
  EXPECT_DOUBLE_EQ(*quantile(mixed, 0.5), 1);
  EXPECT_DOUBLE_EQ(*quantile(mixed, 0.9), 1);
  EXPECT_DOUBLE_EQ(*quantile(mixed, 0.95), 1 + 99 * 0.5);
}

TEST(Mixture, BoundsThatBeginAtZeroHaveABucketWithoutWidth) {
  const Histogram mixed = mix({of({{0, 50}, {10, 50}, {infinity, 50}}), of({{20, 50}, {infinity, 50}})});
  EXPECT_DOUBLE_EQ(*quantile(mixed, 0.3), 0);
  EXPECT_DOUBLE_EQ(*quantile(mixed, 0.75), 10);
}

TEST(Mixture, PlainAndExponentialHistogramsOfAnyUnitAreOneDistribution) {
  Mixture mixture;
  Exponential in_s;
  in_s.counts = {100};  // (1, 2]
  in_s.count = 100;
  in_s.sum = 150;
  in_s.unit_ms = 1000;
  Exponential in_ms = in_s;
  in_ms.unit_ms = 1;
  EXPECT_TRUE(mixture.add(in_s));
  EXPECT_TRUE(mixture.add(in_ms));
  EXPECT_TRUE(mixture.add(of({{10, 100}, {infinity, 100}})));
  const auto latency = mixture.take();
  EXPECT_EQ(latency->samples, 300U);
  EXPECT_NEAR(*latency->p99_ms, 1970, 1e-6);
  EXPECT_DOUBLE_EQ(*latency->mean_ms, (150'000 + 150 + 200) / 300.0);
}

TEST(Mixture, WithoutASumOfOneTheMeanOfAllIsMissing) {
  Mixture mixture;
  mixture.add(of({{10, 100}, {infinity, 100}}));
  Histogram without = of({{20, 100}, {infinity, 100}});
  without.sum.reset();
  mixture.add(without);
  EXPECT_FALSE(mixture.take()->mean_ms);
}

TEST(Mixture, TooManySetsOfBoundsAreRefused) {
  Mixture mixture;
  for (std::size_t i = 0; i < most_shapes; ++i) {
    EXPECT_TRUE(mixture.add(of({{1.0 + static_cast<double>(i), 1}, {infinity, 1}})));
  }
  EXPECT_FALSE(mixture.add(of({{0.5, 1}, {infinity, 1}})));
  EXPECT_TRUE(mixture.add(of({{1.0, 1}, {infinity, 1}})));
  EXPECT_EQ(mixture.take()->samples, most_shapes + 1);
}

// How many observations are at most `value` under the rule, one histogram at a time.
double below(const Histogram& histogram, double value) {
  double lower = 0;
  double under = 0;
  for (const Bucket& bucket : histogram.buckets) {
    const double upper = std::isinf(bucket.upper) ? lower : bucket.upper;
    if (value < upper)
      return value <= lower ? under : under + (bucket.count - under) * (value - lower) / (upper - lower);
    under = bucket.count;
    lower = upper;
  }
  return under;
}

TEST(Mixture, SoManyObservationsAreAtMostAPercentileAsItSays) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<Histogram> parts;
    for (std::size_t part = 0; part < 2 + random() % 4; ++part) {
      std::vector<Bucket> buckets;
      double upper = random() % 3 == 0 ? 0 : 1 + static_cast<double>(random() % 10);
      double count = 0;
      for (std::size_t i = 0; i < 1 + random() % 12; ++i) {
        count += static_cast<double>(random() % 30);
        buckets.push_back({upper, count});
        upper += 1 + static_cast<double>(random() % 10);
      }
      buckets.push_back({infinity, count + static_cast<double>(random() % 10) + 1});
      parts.push_back(of(buckets));
    }
    const Histogram mixed = mix(parts);
    double total = 0;
    for (const Histogram& part : parts) total += part.buckets.back().count;
    ASSERT_NEAR(mixed.buckets.back().count, total, 1e-9 * total);
    for (const double q : {0.1, 0.5, 0.9, 0.95, 0.99}) {
      const double value = *quantile(mixed, q);
      double at_most = 0;
      double less = 0;
      for (const Histogram& part : parts) {
        at_most += below(part, value * (1 + 1e-9) + 1e-9);
        less += below(part, value * (1 - 1e-9) - 1e-9);
      }
      EXPECT_GE(at_most, q * total - 1e-6);
      EXPECT_LE(less, q * total + 1e-6);
    }
  }
}

}  // namespace
}  // namespace osml::latency::otlp
