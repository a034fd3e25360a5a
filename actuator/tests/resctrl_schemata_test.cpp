#include <gtest/gtest.h>

#include "resctrl/monitor.h"
#include "resctrl/schemata.h"
#include "tree.h"

namespace osml::resctrl {
namespace {

using testing_support::Tree;

TEST(SchemataTest, ReadsPaddedAndUnpaddedFormsAlike) {
  const auto old_kernel = parse_schemata("    MB:0= 10;1=100\n    L3:0=0000f;1=fffff\n");
  const auto new_kernel = parse_schemata("MB:0=10;1=100\nL3:0=f;1=fffff\n");
  ASSERT_TRUE(old_kernel && new_kernel);
  for (const char* resource : {"MB", "L3"}) {
    EXPECT_EQ(find_line(*old_kernel, resource)->values, find_line(*new_kernel, resource)->values);
  }
  EXPECT_EQ(find_line(*old_kernel, "L3")->values.at(0), 0xfU);
  EXPECT_EQ(find_line(*old_kernel, "MB")->values.at(0), 10U);
  EXPECT_EQ(find_line(*old_kernel, "L2"), nullptr);
}

TEST(SchemataTest, KeepsSparseDomainIds) {
  const auto schemata = parse_schemata("L3:0=ff;7=f;23=1\n");
  ASSERT_TRUE(schemata);
  EXPECT_EQ(format_line(schemata->front()), "L3:0=ff;7=f;23=1");
}

TEST(SchemataTest, RefusesWhatNoKernelPrints) {
  for (const char* text : {"L3\n", "L3:\n", "L3:0\n", "L3:x=f\n", "L3:0=xyz\n", "MB:0=ff\n", "MB:uninitialized\n"}) {
    EXPECT_FALSE(parse_schemata(text)) << text;
  }
}

TEST(MonitorTest, WordsAreStatesAndNeverZero) {
  EXPECT_EQ(parse_reading("12345\n").value, 12345U);
  EXPECT_EQ(parse_reading("12345\n").state, ReadingState::Value);
  EXPECT_EQ(parse_reading("Unavailable\n").state, ReadingState::Unavailable);
  EXPECT_EQ(parse_reading("Unassigned\n").state, ReadingState::Unassigned);
  EXPECT_EQ(parse_reading("Error\n").state, ReadingState::Error);
  EXPECT_EQ(parse_reading("").state, ReadingState::Error);
}

TEST(MonitorTest, SumsDomainsOnlyWhenEachHasAValue) {
  Tree tree;
  tree.write("g/mon_data/mon_L3_00/llc_occupancy", "100\n").write("g/mon_data/mon_L3_16/llc_occupancy", "23\n");
  tree.write("g/mon_data/mon_L3_00/mbm_local_bytes", "7\n")
      .write("g/mon_data/mon_L3_16/mbm_local_bytes", "Unavailable\n");
  EXPECT_EQ(read_event(tree / "g", "llc_occupancy").value, 123U);
  EXPECT_EQ(read_event(tree / "g", "mbm_local_bytes").state, ReadingState::Unavailable);
  EXPECT_EQ(read_event(tree / "g", "mbm_total_bytes").state, ReadingState::Missing);
  EXPECT_EQ(read_event(tree / "gone", "llc_occupancy").state, ReadingState::Missing);
}

TEST(MonitorTest, ACounterOfTrafficThatIsSilentOnceIsNoOtherCounter) {
  Tree tree;
  tree.write("g/mon_data/mon_L3_00/mbm_local_bytes", "7\n");
  EXPECT_EQ(read_traffic(tree / "g").value, 7U);
  tree.write("g/mon_data/mon_L3_00/mbm_total_bytes", "9\n");
  EXPECT_EQ(read_traffic(tree / "g").value, 9U);
  tree.write("g/mon_data/mon_L3_00/mbm_total_bytes", "Unavailable\n");
  EXPECT_EQ(read_traffic(tree / "g").state, ReadingState::Unavailable);
  EXPECT_EQ(read_traffic(tree / "gone").state, ReadingState::Missing);
}

}  // namespace
}  // namespace osml::resctrl
