#include "base/cpuset.h"

#include <gtest/gtest.h>

namespace osml {
namespace {

TEST(CpuListTest, ReadsIdsAndRanges) {
  EXPECT_EQ(*parse_cpulist("0-2,8\n"), (CpuSet{0, 1, 2, 8}));
  EXPECT_EQ(*parse_cpulist("8,0-2,1"), (CpuSet{0, 1, 2, 8}));
  EXPECT_TRUE(parse_cpulist("\n")->empty());
}

TEST(CpuListTest, RefusesEverythingElseAndNamesThePart) {
  for (const char* text : {"3-1", "a", "1,,2", "0-9999", "-1", "1-", "0x1", "1 2"}) {
    const auto cpus = parse_cpulist(text);
    ASSERT_FALSE(cpus) << text;
    EXPECT_EQ(cpus.error().kind, ErrorKind::Input);
    EXPECT_NE(cpus.error().message.find(text), std::string::npos);
  }
}

TEST(CpuListTest, WritesTheShortestList) {
  EXPECT_EQ(format_cpulist({0, 1, 2, 8}), "0-2,8");
  EXPECT_EQ(format_cpulist({}), "");
}

TEST(CpuListTest, SetsMeetAndJoin) {
  EXPECT_EQ(intersect({0, 1, 2}, {2, 3}), (CpuSet{2}));
  EXPECT_EQ(unite({0, 2}, {1, 2}), (CpuSet{0, 1, 2}));
  EXPECT_TRUE(is_subset({1}, {0, 1}));
  EXPECT_FALSE(is_subset({1, 5}, {0, 1}));
}

}  // namespace
}  // namespace osml
