#include <gtest/gtest.h>

#include "resctrl/info.h"
#include "tree.h"

namespace osml::resctrl {
namespace {

using testing_support::Tree;

TEST(ResctrlInfoTest, ReadsAnIntelMachine) {
  Tree tree;
  tree.resctrl();
  const auto info = read_info(tree.roots());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->l3->cbm_mask, 0xfffffU);
  EXPECT_EQ(info->l3->shareable_bits, 0xc0000U);
  EXPECT_FALSE(info->l3->sparse);  // the file is absent on old kernels
  EXPECT_EQ(info->l3->domains, (std::vector<unsigned>{0}));
  EXPECT_EQ(info->mb->unit, BandwidthUnit::Percent);
  EXPECT_EQ(info->max_groups(), 8U);  // the least of all resources
  EXPECT_FALSE(info->monitor);
}

TEST(ResctrlInfoTest, TellsAmdUnitsFromPercent) {
  Tree tree;
  tree.resctrl().write("resctrl/schemata", "MB:0=2048;1=2048\nL3:0=ffff;1=ffff\n");
  tree.write("resctrl/info/MB/min_bandwidth", "0\n").write("resctrl/info/MB/bandwidth_gran", "1\n");
  tree.write("resctrl/info/L3/cbm_mask", "ffff\n").write("resctrl/info/L3/min_cbm_bits", "0\n");
  tree.write("resctrl/info/L3/sparse_masks", "1\n");
  const auto info = read_info(tree.roots());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->mb->unit, BandwidthUnit::EighthGbps);
  EXPECT_EQ(info->mb->max, 2048U);
  EXPECT_EQ(info->l3->min_bits, 1U);  // the kernel says 0; a service without ways is not for us
  EXPECT_TRUE(info->l3->sparse);
  EXPECT_EQ(info->l3->domains.size(), 2U);
}

TEST(ResctrlInfoTest, TellsMegabytesPerSecond) {
  Tree tree;
  tree.resctrl().write("resctrl/schemata", "MB:0=4294967295\nL3:0=fffff\n");
  EXPECT_EQ(read_info(tree.roots())->mb->unit, BandwidthUnit::Mbps);
}

TEST(ResctrlInfoTest, CodeAndDataAreOneCache) {
  Tree tree;
  tree.write("resctrl/schemata", "L3CODE:0=ff\nL3DATA:0=ff\n");
  for (const char* name : {"L3CODE", "L3DATA"}) {
    tree.write(std::string("resctrl/info/") + name + "/cbm_mask", "ff\n");
  }
  const auto info = read_info(tree.roots());
  ASSERT_TRUE(info && info->l3);
  EXPECT_EQ(info->l3->resources, (std::vector<std::string>{"L3CODE", "L3DATA"}));
}

TEST(ResctrlInfoTest, MonitoringAloneIsNoAllocation) {
  Tree tree;
  tree.write("resctrl/schemata", "").write("resctrl/info/L3_MON/num_rmids", "256\n");
  tree.write("resctrl/info/L3_MON/mon_features", "llc_occupancy\nmbm_total_bytes\n");
  const auto info = read_info(tree.roots());
  ASSERT_TRUE(info);
  EXPECT_FALSE(info->allocates());
  EXPECT_EQ(info->monitor->events.size(), 2U);
  EXPECT_EQ(info->max_groups(), std::nullopt);
}

TEST(ResctrlInfoTest, SaysHowToMountAndWhatTheCpuLacks) {
  Tree tree;
  const auto absent = read_info(tree.roots());
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, ErrorKind::Unsupported);
  EXPECT_NE(absent.error().message.find("no resource control"), std::string::npos);
  tree.write("resctrl/.keep", "");
  EXPECT_NE(read_info(tree.roots()).error().message.find("mount -t resctrl"), std::string::npos);
}

TEST(ResctrlInfoTest, BandwidthIsRoundedUpLikeTheKernelDoes) {
  const BandwidthInfo percent{10, 100, 10, BandwidthUnit::Percent, 8, {0}};
  EXPECT_EQ(rounded(percent, 15), 20U);
  EXPECT_EQ(rounded(percent, 91), 100U);
  EXPECT_EQ(rounded(percent, 100), 100U);
  const BandwidthInfo absolute{1, 2048, 1, BandwidthUnit::EighthGbps, 16, {0}};
  EXPECT_EQ(rounded(absolute, 15), 15U);
}

}  // namespace
}  // namespace osml::resctrl
