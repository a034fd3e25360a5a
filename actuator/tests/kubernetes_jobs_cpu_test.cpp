// CPUs that the cluster may give to jobs: a low quantile that moves seldom and never promises more than there is.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kubernetes/jobs_cpu.h"

namespace osml {
namespace {

constexpr double machine = 36;

class JobsCpuTest : public testing::Test {
 protected:
  void pass(int seconds, std::optional<double> cpus, bool refused = false) {
    for (int i = 0; i < seconds; ++i) jobs_.see(cpus, machine, refused, now_s_ += 1);
  }

  JobsCpu jobs_{1.0};
  double now_s_ = 0;
};

TEST_F(JobsCpuTest, NothingIsPromisedInTheFirstMinute) {
  pass(54, 12);
  EXPECT_EQ(jobs_.told(), std::nullopt);
  pass(6, 12);
  EXPECT_EQ(jobs_.told(), 12000U);
}

TEST_F(JobsCpuTest, AShortDipAndAShortPeakChangeNothing) {
  pass(300, 12);
  pass(20, 2);
  EXPECT_EQ(jobs_.told(), 12000U);
  pass(300, 12);
  pass(200, 30);
  EXPECT_EQ(jobs_.told(), 12000U);
}

TEST_F(JobsCpuTest, WhatLastsIsFollowedDownSoonAndUpLate) {
  pass(300, 12);
  pass(40, 4);
  EXPECT_EQ(jobs_.told(), 4000U);
  pass(200, 20);
  EXPECT_EQ(jobs_.told(), 4000U);
  pass(100, 20);
  EXPECT_EQ(jobs_.told(), 20000U);
}

TEST_F(JobsCpuTest, SmallMovesAreNotTold) {
  pass(300, 12);
  pass(600, 12.5);
  EXPECT_EQ(jobs_.told(), 12000U);
  pass(600, 14);
  EXPECT_EQ(jobs_.told(), 14000U);
}

TEST_F(JobsCpuTest, WholeHundredsRoundedDown) {
  JobsCpu jobs(1.0);
  for (int second = 1; second <= 100; ++second) jobs.see(0.1 * 12 + 0.07, 2, false, second);
  EXPECT_EQ(jobs.told(), 1200U);
}

TEST_F(JobsCpuTest, NoneWhileServicesMissTheirTargets) {
  pass(300, 12);
  pass(1, 12, true);
  EXPECT_EQ(jobs_.told(), 0U);
  pass(1, 12);
  EXPECT_EQ(jobs_.told(), 12000U);
}

TEST_F(JobsCpuTest, WhatIsNotKnownAnyMoreIsNoPromise) {
  pass(300, 12);
  pass(200, std::nullopt);
  EXPECT_EQ(jobs_.told(), 12000U);
  pass(200, std::nullopt);
  EXPECT_EQ(jobs_.told(), 0U);
}

TEST(JobsCpu, LongIntervalsAreSlotsOfTheirOwn) {
  JobsCpu jobs(60);
  for (int i = 1; i <= 11; ++i) jobs.see(8, machine, false, 60.0 * i);
  EXPECT_EQ(jobs.told(), std::nullopt);
  jobs.see(8, machine, false, 720);
  EXPECT_EQ(jobs.told(), 8000U);
}

// Whatever decisions say: whole hundreds, not above the machine, nor above all that was seen in the window.
TEST(JobsCpu, NeverMoreThanThereWas) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> any(-10, 80);
    JobsCpu jobs(1.0);
    double most = 0;
    for (int second = 1; second <= 600; ++second) {
      const double cpus = any(random);
      most = std::max(most, std::min(cpus, machine));
      jobs.see(random() % 5 == 0 ? std::nullopt : std::optional(cpus), machine, random() % 50 == 0, second);
      if (!jobs.told()) continue;
      EXPECT_EQ(*jobs.told() % 100, 0U);
      EXPECT_LE(static_cast<double>(*jobs.told()), 1000 * most + 1e-6) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace osml
