#include <gtest/gtest.h>

#include "base/number.h"
#include "cpu/quota.h"

namespace osml {
namespace {

TEST(QuotaTest, PeriodsAreShortAndLegal) {
  for (const double cpus : {0.01, 0.05, 0.1, 0.3, 1.0, 1.5, 36.0}) {
    const Quota quota = quota_for(cpus);
    EXPECT_GE(*quota.quota_us, 1000) << cpus;  // the kernel's least
    EXPECT_LE(quota.period_us, 1000000) << cpus;
    EXPECT_NEAR(*quota.cpus(), cpus, 1e-4) << cpus;
    EXPECT_TRUE(same_quota(format_number(*quota.cpus()), format_number(cpus)));
  }
  EXPECT_EQ(quota_for(0.1).period_us, 10000);
  EXPECT_EQ(quota_for(0.05).period_us, 20000);
}

TEST(QuotaTest, ReadsCpuMax) {
  EXPECT_EQ(parse_cpu_max("max 100000")->cpus(), std::nullopt);
  EXPECT_EQ(parse_cpu_max("15000 10000")->cpus(), 1.5);
  for (const char* text : {"", "max", "x 100", "100 0", "100 x"}) EXPECT_FALSE(parse_cpu_max(text)) << text;
  EXPECT_EQ(format_cpu_max({std::nullopt, 100000}), "max 100000");
}

TEST(QuotaTest, NoLimitIsNotEqualToAny) { EXPECT_FALSE(same_quota("", "0.5")); }

}  // namespace
}  // namespace osml
