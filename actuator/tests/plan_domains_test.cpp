// Regions in cache domains: golden/domains.json has the cases, and osml/domain says the same of each partition.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files.h"
#include "domain/json.h"
#include "node/mechanisms.h"
#include "node/platform.h"
#include "plan/domains.h"
#include "plan/validate.h"
#include "tree.h"

namespace osml {
namespace {

using nlohmann::json;

json golden() {
  const auto text = read_text(fs::path(__FILE__).parent_path() / "golden" / "domains.json");
  return json::parse(*text);
}

// A node of the services a and b whose CPUs and masks can be set.
struct Node {
  Config config;
  std::vector<KnobSet> knobs;

  Node() {
    config.node = "n";
    for (const char* name : {"a", "b"}) {
      ServiceConfig service;
      service.spec.name = name;
      config.services.push_back(service);
      KnobSet set;
      set.service = name;
      set.absent = true;  // no CPU knob is asked for
      set.knobs[Aspect::Ways] = nullptr;
      knobs.push_back(std::move(set));
    }
  }
};

Decision decision_of(const json& one) {
  Decision decision;
  decision.node = "n";
  decision.partition = *parse_partition({{"regions", one.at("regions")}}, "partition");
  decision.assignments = *parse_assignments(one.at("assignments"), "assignments");
  return decision;
}

TEST(PlanDomains, SaysWhatTheGoldenCasesSay) {
  const json document = golden();
  for (const json& one : document.at("cases")) {
    json platform = document.at("platform");
    platform.update(one.at("platform"));
    const Decision decision = decision_of(one);
    const Platform machine = *parse_platform(platform, "platform");
    const std::string why = domains_refusal(decision, machine).value_or("accepted");
    const bool here = names_domains(decision.partition);
    const std::string says = one.at("says").is_null() || !here ? "accepted" : one.at("says").get<std::string>();
    EXPECT_NE(why.find(says), std::string::npos) << one.at("name") << ": " << why;
    EXPECT_EQ(why.find('\n'), std::string::npos);
  }
}

TEST(PlanDomains, AWholeDecisionIsCheckedForThem) {
  const json document = golden();
  const Platform machine = *parse_platform(document.at("platform"), "platform");
  for (const json& one : document.at("cases")) {
    if (!one.at("platform").empty() || !one.at("says").is_string()) continue;
    const Node node;
    const std::string why = refusal(decision_of(one), node.config, machine, node.knobs).value_or("accepted");
    EXPECT_NE(why.find(one.at("says").get<std::string>()), std::string::npos) << one.at("name") << ": " << why;
  }
}

// A machine of two sockets with 4 CPUs each, without resctrl.
class TwoCaches : public testing::Test {
 protected:
  TwoCaches() {
    tree_.sysfs();
    for (unsigned cpu = 0; cpu < 8; ++cpu) cache(cpu, cpu < 4 ? "0\n" : "1\n", cpu < 4 ? "0-3\n" : "4-7\n");
  }
  void cache(unsigned cpu, const std::string& id, const std::string& cpus) {
    const std::string base = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index3";
    tree_.write(base + "/id", id).write(base + "/shared_cpu_list", cpus);
  }
  [[nodiscard]] Platform platform(bool place = true) const {
    Config config = tree_.config();
    config.cpu.place = place;
    return make_platform(config, read_topology(config, *usable_cpus(config)), std::nullopt, false);
  }

  testing_support::Tree tree_;
};

TEST_F(TwoCaches, AreDomainsWithoutResctrl) {
  const Platform platform = this->platform();
  ASSERT_EQ(platform.domains.size(), 2U);
  EXPECT_EQ(platform.domains[0].cpus, "0-3");
  EXPECT_EQ(platform.domains[1].id, 1U);
  EXPECT_EQ(platform.domains[1].cpus, "4-7");
  EXPECT_TRUE(platform.regions_in_domains);
  EXPECT_FALSE(platform.ways);
}

TEST_F(TwoCaches, TakeRegionsOnlyWhereTheOperatorSaysSo) {
  const Platform off = platform(false);
  EXPECT_EQ(off.domains.size(), 2U);
  EXPECT_FALSE(off.regions_in_domains);
  Config config;
  const auto offered = probe_placement(config, off);
  ASSERT_TRUE(offered);
  EXPECT_FALSE(offered->available);
  EXPECT_EQ(offered->reason, "2 cache domains; placement was measured in simulation only, and is switched off");
  EXPECT_EQ(offered->how_to_enable, "set cpu.cache_domains: place");
  config.cpu.place = true;
  EXPECT_TRUE(probe_placement(config, off)->available);
  EXPECT_FALSE(probe_placement(config, Platform{}));
}

TEST(Placement, SwitchedOnOrOffIsAnotherMachine) {
  // A reload then restores the node, and the server is told of no earlier partition.
  CpuConfig off;
  CpuConfig on;
  on.place = true;
  EXPECT_FALSE(off == on);
}

TEST_F(TwoCaches, OddFilesLeaveTheDomainsUnknown) {
  for (const char* odd : {"0-3,x\n", "\n", "3-0\n", "2-7\n", "4-6\n", "4-99999\n"}) {
    for (unsigned cpu = 4; cpu < 8; ++cpu) cache(cpu, "1\n", odd);
    EXPECT_TRUE(platform().domains.empty()) << odd;
    EXPECT_FALSE(platform().regions_in_domains) << odd;
  }
}

TEST_F(TwoCaches, ACacheWithoutIdLeavesThemUnknown) {
  for (unsigned cpu = 4; cpu < 8; ++cpu) cache(cpu, "none\n", "4-7\n");
  EXPECT_TRUE(platform().domains.empty());
}

TEST_F(TwoCaches, MayHaveDifferentSizes) {  // a CCX with a disabled core
  for (unsigned cpu = 4; cpu < 7; ++cpu) cache(cpu, "1\n", "4-6\n");
  tree_.write("sys/devices/system/cpu/online", "0-6\n");
  const Platform platform = this->platform();
  ASSERT_EQ(platform.domains.size(), 2U);
  EXPECT_EQ(platform.domains[0].cpus, "0-3");
  EXPECT_EQ(platform.domains[1].cpus, "4-6");
  EXPECT_TRUE(platform.regions_in_domains);
}

TEST_F(TwoCaches, OneOfThemInUseIsNoDivision) {
  tree_.write("sys/devices/system/cpu/online", "0-3\n");
  EXPECT_EQ(platform().domains.size(), 1U);
  EXPECT_FALSE(platform().regions_in_domains);
}

}  // namespace
}  // namespace osml
