#include "histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "schedule.h"

namespace osml::loadgen {
namespace {

TEST(Histogram, SaysNothingWhereNothingWasRecorded) {
  const Histogram empty;
  EXPECT_FALSE(empty.percentile(0.99).has_value());
  EXPECT_FALSE(empty.mean().has_value());
}

TEST(Histogram, StaysWithinOnePercentOfTheExactPercentiles) {
  Random random(7);
  Histogram histogram;
  std::vector<Nanos> exact;
  for (int i = 0; i < 20'000; ++i) {
    // Eight decades: from 20 ns to 2 s.
    const auto value = static_cast<Nanos>(20.0 * std::pow(10.0, 8.0 * random.unit()));
    exact.push_back(value);
    histogram.record(value);
  }
  std::ranges::sort(exact);
  for (const double share : {0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(exact.size()))) - 1;
    const auto want = static_cast<double>(exact[rank]);
    EXPECT_NEAR(static_cast<double>(*histogram.percentile(share)), want, 0.01 * want) << "share " << share;
  }
}

TEST(Histogram, TakesTheNearestRank) {
  Histogram histogram;
  for (int i = 0; i < 99; ++i) histogram.record(10);
  histogram.record(100);
  EXPECT_EQ(*histogram.percentile(0.99), 10);
  EXPECT_EQ(*histogram.percentile(0.995), 100);
}

TEST(Histogram, KeepsAbsurdValuesInItsLastBucket) {
  Histogram histogram;
  histogram.record(-5);
  histogram.record(kNever);
  EXPECT_EQ(*histogram.percentile(0.5), 0);
  EXPECT_GT(*histogram.percentile(1.0), 3600 * kSecond);
  EXPECT_EQ(histogram.count(), 2U);
}

TEST(Histogram, AddsAnother) {
  Histogram one;
  Histogram two;
  one.record(100);
  two.record(100);
  two.record(100'000);
  one.add(two);
  EXPECT_EQ(one.count(), 3U);
  EXPECT_NEAR(static_cast<double>(*one.mean()), (100 + 100 + 100'000) / 3.0, 1.0);
}

}  // namespace
}  // namespace osml::loadgen
