#include "plan/plan.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/cpuset.h"
#include "base/mask.h"

namespace osml {
namespace {

std::vector<std::string> lines(const std::vector<Change>& changes, const MaskRules& rules = {}) {
  std::vector<std::string> text;
  for (const Step& step : plan(changes, rules)) text.push_back(describe(changes[step.change], step));
  return text;
}

TEST(PlanTest, ShrinksBeforeItGrows) {
  const std::vector<Change> changes = {{"a", Aspect::Cpus, "0-1", "0-3"}, {"b", Aspect::Cpus, "2-7", "4-7"}};
  EXPECT_EQ(lines(changes), (std::vector<std::string>{"b: cpus 2-7 -> 4-7", "a: cpus 0-1 -> 0-3"}));
}

TEST(PlanTest, KeepsTheCommonPartFirst) {
  const std::vector<Change> changes = {{"a", Aspect::Cpus, "0-3", "2-5"}, {"b", Aspect::Cpus, "4-7", "6-7,0-1"}};
  EXPECT_EQ(lines(changes), (std::vector<std::string>{"a: cpus 0-3 -> 2-3", "b: cpus 4-7 -> 6-7", "a: cpus 0-3 -> 2-5",
                                                      "b: cpus 4-7 -> 6-7,0-1"}));
}

TEST(PlanTest, MakesAGroupBeforeItsMasksAndMovesTasksLast) {
  const std::vector<Change> changes = {{"a", Aspect::Tasks, "", "osml-a"},
                                       {"a", Aspect::Ways, "", "ff"},
                                       {"a", Aspect::Group, "", "present"},
                                       {"b", Aspect::Ways, "f00", "fff00"}};
  EXPECT_EQ(lines(changes), (std::vector<std::string>{"a: group - -> present", "a: way_mask - -> ff",
                                                      "b: way_mask f00 -> fff00", "a: tasks - -> osml-a"}));
}

TEST(PlanTest, IntermediateMasksAreLegal) {
  const std::vector<Change> holes = {{"a", Aspect::Ways, "f0f", "ff0f"}};
  EXPECT_EQ(lines(holes).size(), 1U);
  const std::vector<Change> narrow = {{"a", Aspect::Ways, "7", "1c"}};  // one way in common
  EXPECT_EQ(lines(narrow, {2, false}).size(), 1U);
  EXPECT_EQ(lines(narrow, {1, false}).size(), 2U);
}

TEST(PlanTest, MasksThatDifferFromDomainToDomainAreSetAtOnce) {
  EXPECT_EQ(lines({{"a", Aspect::Ways, "0=ff;1=f", "ff"}}).size(), 1U);
}

TEST(PlanTest, LowersQuotaAndBandwidthFirst) {
  const std::vector<Change> changes = {{"a", Aspect::Quota, "0.5", "1.5"},
                                       {"b", Aspect::Quota, "1.5", "0.5"},
                                       {"a", Aspect::Mba, "20", "50"},
                                       {"b", Aspect::Mba, "100", "20"}};
  EXPECT_EQ(lines(changes), (std::vector<std::string>{"b: mba 100 -> 20", "b: cpu_quota 1.5 -> 0.5", "a: mba 20 -> 50",
                                                      "a: cpu_quota 0.5 -> 1.5"}));
}

// A random split of CPUs and ways into runs, one for each service.
struct Split {
  std::vector<CpuSet> cpus;
  std::vector<std::uint64_t> masks;

  Split(std::mt19937& random, unsigned services, unsigned total) {
    std::vector<unsigned> cuts(total - 1);
    for (unsigned i = 0; i < cuts.size(); ++i) cuts[i] = i + 1;
    std::shuffle(cuts.begin(), cuts.end(), random);
    cuts.resize(services - 1);
    std::sort(cuts.begin(), cuts.end());
    cuts.push_back(total);
    unsigned first = 0;
    for (const unsigned cut : cuts) {
      CpuSet run;
      for (; first < cut; ++first) run.push_back(first);
      masks.push_back(((std::uint64_t{1} << run.size()) - 1) << run.front());
      cpus.push_back(run);
    }
    const auto seed = random();
    std::shuffle(cpus.begin(), cpus.end(), std::mt19937(seed));
    std::shuffle(masks.begin(), masks.end(), std::mt19937(seed));
  }
};

TEST(PlanTest, NoServiceIsEverEmptyAndNobodyLeavesOldAndNew) {
  std::mt19937 random(20260117);
  for (int round = 0; round < 500; ++round) {
    const auto services = static_cast<unsigned>(2 + random() % 5);
    const Split from(random, services, 16);
    const Split to(random, services, 16);
    std::vector<Change> changes;
    std::map<std::string, CpuSet> cpus;
    std::map<std::string, std::uint64_t> masks;
    for (unsigned i = 0; i < services; ++i) {
      const std::string name = "s" + std::to_string(i);
      cpus[name] = from.cpus[i];
      masks[name] = from.masks[i];
      if (from.cpus[i] == to.cpus[i]) continue;
      changes.push_back({name, Aspect::Cpus, format_cpulist(from.cpus[i]), format_cpulist(to.cpus[i])});
      changes.push_back({name, Aspect::Ways, format_mask(from.masks[i]), format_mask(to.masks[i])});
    }
    for (const Step& step : plan(changes, {1, false})) {
      const Change& change = changes[step.change];
      const auto index = static_cast<std::size_t>(std::stoul(change.service.substr(1)));
      if (change.aspect == Aspect::Cpus) {
        cpus[change.service] = *parse_cpulist(step.value);
        ASSERT_FALSE(cpus[change.service].empty());
        ASSERT_TRUE(is_subset(cpus[change.service], unite(from.cpus[index], to.cpus[index])));
      } else {
        const std::uint64_t mask = std::stoull(step.value, nullptr, 16);
        masks[change.service] = mask;
        ASSERT_TRUE(is_contiguous(mask));
        ASSERT_EQ(mask & ~(from.masks[index] | to.masks[index]), 0U);
      }
    }
    for (unsigned i = 0; i < services; ++i) {
      ASSERT_EQ(cpus["s" + std::to_string(i)], to.cpus[i]);
      ASSERT_EQ(masks["s" + std::to_string(i)], to.masks[i]);
    }
  }
}

// Where everybody keeps something, an exclusive partition stays exclusive at every step.
TEST(PlanTest, NobodyGetsWhatAnotherStillHas) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto cut = static_cast<unsigned>(2 + random() % 12);
    const auto moved = static_cast<unsigned>(1 + random() % 15);
    std::vector<Change> changes;
    std::map<std::string, std::uint64_t> has;
    const auto low = [](unsigned n) { return (std::uint64_t{1} << n) - 1; };
    has["a"] = low(cut);
    has["b"] = low(16) & ~low(cut);
    if (moved == cut) continue;
    changes.push_back({"a", Aspect::Ways, format_mask(has["a"]), format_mask(low(moved))});
    changes.push_back({"b", Aspect::Ways, format_mask(has["b"]), format_mask(low(16) & ~low(moved))});
    for (const Step& step : plan(changes, {1, false})) {
      has[changes[step.change].service] = std::stoull(step.value, nullptr, 16);
      ASSERT_EQ(has["a"] & has["b"], 0U) << cut << " -> " << moved;
    }
  }
}

}  // namespace
}  // namespace osml
