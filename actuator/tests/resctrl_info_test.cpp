#include <gtest/gtest.h>

#include "resctrl/info.h"
#include "resctrl/knobs.h"
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
  tree.write("resctrl/info/MB/bandwidth_gran", "7\n");
  const auto info = read_info(tree.roots());
  EXPECT_EQ(info->mb->unit, BandwidthUnit::Mbps);
  EXPECT_EQ(info->mb->max, 15'999'998U) << "a decision may name it, and so it may where the kernel rounds it up";
  EXPECT_EQ(info->mb->found, info->mb->max);
  const Site site{tree.roots(), tree / "resctrl/osml-lc", {}, *info};
  const MbaKnob knob(site);
  for (const char* read : {"100", "105"}) EXPECT_TRUE(knob.same(read, "100")) << read;
  for (const char* read : {"99", "101", "112"}) EXPECT_FALSE(knob.same(read, "100")) << read;
}

TEST(ResctrlInfoTest, MegabytesPerSecondAreNoPercentagesWhereTheOperatorLimitedAll) {
  Tree tree;
  tree.resctrl().write("resctrl/schemata", "MB:0=40000\nL3:0=fffff\n");
  const auto info = read_info(tree.roots());
  EXPECT_EQ(info->mb->unit, BandwidthUnit::Mbps);
  EXPECT_EQ(info->mb->found, 40000U);
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
