#include "schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace osml::loadgen {
namespace {

std::vector<double> gaps(PoissonSchedule& schedule, int count) {
  std::vector<double> result;
  Nanos last = schedule.pop();
  for (int i = 0; i < count; ++i) {
    const Nanos due = schedule.pop();
    result.push_back(to_seconds(due - last));
    last = due;
  }
  return result;
}

TEST(PoissonSchedule, HasTheMeanAndTheSpreadOfAnExponential) {
  PoissonSchedule schedule(500, 1, 0);
  const auto sample = gaps(schedule, 50'000);
  double sum = 0;
  double squares = 0;
  for (const double gap : sample) {
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / static_cast<double>(sample.size());
  const double variance = squares / static_cast<double>(sample.size()) - mean * mean;
  EXPECT_NEAR(mean, 1.0 / 500, 0.02 / 500);
  EXPECT_NEAR(std::sqrt(variance) / mean, 1.0, 0.03);
}

TEST(PoissonSchedule, IsFixedByItsSeed) {
  PoissonSchedule one(100, 42, 0);
  PoissonSchedule same(100, 42, 0);
  PoissonSchedule other(100, 43, 0);
  const auto first = gaps(one, 100);
  EXPECT_EQ(first, gaps(same, 100));
  EXPECT_NE(first, gaps(other, 100));
}

TEST(PoissonSchedule, RestsAtRateZeroAndStartsWhenTold) {
  PoissonSchedule schedule(0, 1, 0);
  EXPECT_EQ(schedule.next(), kNever);
  schedule.set_rate(1000, 5 * kSecond);
  EXPECT_GT(schedule.next(), 5 * kSecond);
  EXPECT_LT(schedule.next(), 6 * kSecond);
  schedule.set_rate(0, 6 * kSecond);
  EXPECT_EQ(schedule.next(), kNever);
}

}  // namespace
}  // namespace osml::loadgen
