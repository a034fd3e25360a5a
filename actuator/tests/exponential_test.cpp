#include "domain/exponential.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <random>

namespace osml {
namespace {

using testing::ElementsAre;

Exponential made(int scale, std::int64_t offset, std::vector<double> counts) {
  Exponential histogram;
  histogram.scale = scale;
  histogram.offset = offset;
  histogram.counts = std::move(counts);
  histogram.count = std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0);
  histogram.sum = 1.0;
  return histogram;
}

// As an SDK counts: the bucket whose bounds a value lies between.
Exponential counted(int scale, const std::vector<double>& values) {
  Exponential histogram = made(scale, 0, {});
  histogram.sum = 0.0;
  for (const double value : values) {
    const auto index = static_cast<std::int64_t>(std::ceil(std::ldexp(std::log2(value), scale))) - 1;
    Exponential one = made(scale, index, {1.0});
    one.sum = value;
    add(histogram, one);
  }
  return histogram;
}

TEST(Exponential, BucketsBeginAtPowersOfTheBase) {
  Exponential histogram = made(0, -1, {2, 0, 3});  // (0.5, 1], (1, 2], (2, 4] seconds
  histogram.unit_ms = 1000;
  const Histogram in = as_histogram(histogram);
  ASSERT_EQ(in.buckets.size(), 4U);
  EXPECT_EQ(in.buckets[0].upper, 500);
  EXPECT_EQ(in.buckets[0].count, 0);
  EXPECT_EQ(in.buckets[1].upper, 1000);
  EXPECT_EQ(in.buckets[1].count, 2);
  EXPECT_EQ(in.buckets[2].upper, 2000);
  EXPECT_EQ(in.buckets[2].count, 2);
  EXPECT_EQ(in.buckets[3].upper, 4000);
  EXPECT_EQ(in.buckets[3].count, 5);
  EXPECT_EQ(*quantile(in, 0.9), 2000 + 2000 * (4.5 - 2) / 3);
  EXPECT_EQ(*in.sum, 1000);
}

TEST(Exponential, ValuesOfZeroHaveABucketOfTheirOwn) {
  Exponential histogram = made(0, 0, {2});
  histogram.zero_count = 8;
  histogram.count = 10;
  EXPECT_EQ(*quantile(as_histogram(histogram), 0.5), 0);
  EXPECT_EQ(*quantile(as_histogram(histogram), 0.9), 1.5);
  histogram.zero_threshold = 0.5;
  EXPECT_EQ(*quantile(as_histogram(histogram), 0.4), 0.25);
}

TEST(Exponential, ALowerScaleJoinsNeighboursAlsoOfNegativeIndexes) {
  Exponential histogram = made(1, -3, {1, 2, 4, 8, 16});  // -3 | -2 -1 | 0 1
  lower_scale(histogram, 0);
  EXPECT_EQ(histogram.offset, -2);
  EXPECT_THAT(histogram.counts, ElementsAre(1, 6, 24));
  lower_scale(histogram, 5);
  EXPECT_EQ(histogram.scale, 0);
  lower_scale(histogram, -1000);  // whatever a hostile client sends
  EXPECT_THAT(histogram.counts, ElementsAre(7, 24));
}

TEST(Exponential, TheGainBetweenReadingsOfDifferentScales) {
  const auto gained = difference(made(0, -1, {5, 9}), made(1, -1, {2, 3, 1}));  // older: -1 | 0 1
  ASSERT_TRUE(gained);
  EXPECT_EQ(gained->offset, -1);
  EXPECT_THAT(gained->counts, ElementsAre(3, 5));
  EXPECT_EQ(gained->count, 8);
}

TEST(Exponential, AWiderZeroBucketTakesWholeBuckets) {
  Exponential histogram = made(0, -2, {1, 2, 4});  // (0.25, 0.5], (0.5, 1], (1, 2]
  histogram.zero_count = 8;
  widen_zero(histogram, 0.5);
  EXPECT_EQ(histogram.zero_threshold, 0.5);
  EXPECT_EQ(histogram.zero_count, 9);
  EXPECT_EQ(histogram.offset, -1);
  EXPECT_THAT(histogram.counts, ElementsAre(2, 4));
  widen_zero(histogram, 0.25);
  EXPECT_EQ(histogram.zero_threshold, 0.5) << "it never becomes smaller";
  widen_zero(histogram, 0.7);
  EXPECT_EQ(histogram.zero_threshold, 1) << "a bucket cannot be divided";
  EXPECT_EQ(histogram.zero_count, 11);
  widen_zero(histogram, 100);
  EXPECT_EQ(histogram.zero_threshold, 100);
  EXPECT_EQ(histogram.zero_count, 15);
  EXPECT_TRUE(histogram.counts.empty());
}

TEST(Exponential, WhatWentBackwardsIsNoGain) {
  EXPECT_FALSE(difference(made(0, 0, {5, 1}), made(0, 0, {5, 2})));
  EXPECT_FALSE(difference(made(0, 1, {9}), made(0, 0, {1})));
  Exponential other_zero = made(0, 0, {5});
  other_zero.zero_threshold = 1e-3;
  EXPECT_FALSE(difference(other_zero, made(0, 0, {5})));
  Exponential less = made(0, 0, {5});
  less.sum = 0.5;
  ASSERT_TRUE(difference(less, made(0, 0, {5}))) << "one value was below 0";
  EXPECT_FALSE(difference(less, made(0, 0, {5}))->sum);
  less.sum.reset();
  ASSERT_TRUE(difference(less, made(0, 0, {5})));
  EXPECT_FALSE(difference(less, made(0, 0, {5}))->sum);
}

TEST(Exponential, WhatLiesFarApartIsAddedWithoutMoreBucketsThanAllowed) {
  Exponential histogram = made(20, -1'000'000'000, std::vector<double>(160, 1));
  add(histogram, made(20, 1'000'000'000, std::vector<double>(160, 2)));
  EXPECT_LE(histogram.counts.size(), Exponential::most_buckets);
  EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0), 480);
  EXPECT_EQ(histogram.count, 480);
}

TEST(Exponential, APercentileIsAsNearAsABucketIsWideHoweverHistogramsAreAdded) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    std::lognormal_distribution<double> latency(0, 1.5);
    std::vector<double> all;
    Exponential together = counted(3, {});
    for (int part = 0; part < 4; ++part) {
      std::vector<double> values(100);
      for (double& value : values) value = latency(random);
      add(together, counted(3 + static_cast<int>(random() % 3), values));
      all.insert(all.end(), values.begin(), values.end());
    }
    ASSERT_EQ(together.scale, 3);
    std::sort(all.begin(), all.end());
    const double width = std::exp2(1.0 / 8);  // of a bucket at scale 3
    for (const double q : {0.5, 0.95, 0.99}) {
      const double exact = all[static_cast<std::size_t>(std::ceil(q * 400)) - 1];
      const double found = *quantile(as_histogram(together), q);
      EXPECT_LE(found, exact * width);
      EXPECT_GE(found, exact / width);
    }
    EXPECT_NEAR(*together.sum, std::accumulate(all.begin(), all.end(), 0.0), 1e-6);
  }
}

}  // namespace
}  // namespace osml
