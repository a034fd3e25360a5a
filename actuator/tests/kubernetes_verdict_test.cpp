// What the cluster is told of the targets, and when: one bad interval is no news, and a flapping service is bad news.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kubernetes/verdict.h"

namespace osml {
namespace {

using testing::ElementsAre;

ClusterFacts facts(Standing standing, std::vector<std::string> services = {"search"}, const std::string& words = "") {
  ClusterFacts made;
  made.standing = standing;
  made.services = std::move(services);
  made.words = words;
  return made;
}

class VerdictTest : public testing::Test {
 protected:
  void pass(int intervals, const ClusterFacts& each) {
    for (int i = 0; i < intervals; ++i) window_.see(each, now_s_ += 1);
  }
  std::optional<Standing> told() const {
    return window_.told() ? std::optional(window_.told()->standing) : std::nullopt;
  }

  VerdictWindow window_{1.0};
  double now_s_ = 0;
};

TEST_F(VerdictTest, GoodNewsNeedsNineTenthsOfAMinute) {
  pass(53, facts(Standing::Met));
  EXPECT_EQ(told(), std::nullopt);
  pass(2, facts(Standing::Met));
  EXPECT_EQ(told(), Standing::Met);
  EXPECT_THAT(window_.told()->services, ElementsAre("search"));
}

TEST_F(VerdictTest, BadNewsNeedsHalfAMinute) {
  pass(29, facts(Standing::Missed));
  EXPECT_EQ(told(), std::nullopt);
  pass(1, facts(Standing::Missed));
  EXPECT_EQ(told(), Standing::Missed);
}

TEST_F(VerdictTest, OneBadIntervalAndAShortSilenceChangeNothing) {
  pass(60, facts(Standing::Met));
  pass(1, facts(Standing::Missed));
  EXPECT_EQ(told(), Standing::Met);
  pass(60, facts(Standing::Met));
  pass(20, facts(Standing::NoDecision, {}));
  EXPECT_EQ(told(), Standing::Met);
  pass(15, facts(Standing::NoDecision, {}));
  EXPECT_EQ(told(), Standing::NoDecision);
}

TEST_F(VerdictTest, WhoMissesEveryOtherIntervalIsToldOnceAndForAll) {
  pass(60, facts(Standing::Met));
  int changes = 0;
  std::optional<Standing> last = told();
  for (int i = 0; i < 600; ++i) {
    pass(1, facts(i % 2 == 0 ? Standing::Missed : Standing::Met));
    changes += told() != last ? 1 : 0;
    last = told();
  }
  EXPECT_EQ(changes, 1);
  EXPECT_EQ(told(), Standing::Missed);
}

TEST_F(VerdictTest, InfeasibleAndMissedTogetherAreBadNews) {
  pass(60, facts(Standing::Met));
  for (int i = 0; i < 20; ++i) {
    pass(1, facts(Standing::Infeasible, {"api"}, "too little"));
    pass(1, facts(Standing::Missed));
    pass(1, facts(Standing::Met));
  }
  EXPECT_EQ(told(), Standing::Missed);
  EXPECT_THAT(window_.told()->services, ElementsAre("api", "search"));
  pass(40, facts(Standing::Infeasible, {"api"}, "still too little"));
  EXPECT_EQ(told(), Standing::Infeasible);
  EXPECT_THAT(window_.told()->services, ElementsAre("api"));
  EXPECT_EQ(window_.told()->words, "still too little");
}

TEST_F(VerdictTest, WhoMissedASingleTimeIsNotNamed) {
  pass(50, facts(Standing::Missed));
  pass(2, facts(Standing::Missed, {"api", "search"}));
  EXPECT_THAT(window_.told()->services, ElementsAre("search"));
}

TEST_F(VerdictTest, WhoMissesASingleTimeWhileOldNewsStandsIsNotNamed) {
  pass(120, facts(Standing::Missed));
  pass(14, facts(Standing::NoDecision, {}));
  pass(20, facts(Standing::Met));
  pass(1, facts(Standing::Missed, {"moses"}));
  for (int i = 0; i < 80 && told() == Standing::Missed; ++i) {
    EXPECT_THAT(window_.told()->services, ElementsAre("search")) << now_s_;
    pass(1, facts(Standing::Met));
  }
  EXPECT_EQ(told(), Standing::Met);
}

TEST_F(VerdictTest, WhereThePolicyNamesNobodyThoseThatMissAreNamed) {
  ClusterFacts infeasible = facts(Standing::Infeasible, {}, "too little");
  infeasible.missed = {"search"};
  pass(29, infeasible);
  pass(1, facts(Standing::Missed, {"moses", "search"}));
  ASSERT_EQ(told(), Standing::Missed);
  EXPECT_THAT(window_.told()->services, ElementsAre("search"));
}

// Fifteen services that each miss every fifteenth interval, one after the other.
TEST_F(VerdictTest, WhereEachMissesSeldomAndSomebodyAlwaysAllAreNamed) {
  for (const Standing standing : {Standing::Missed, Standing::Unmeasured}) {
    for (int i = 0; i < 150; ++i) {
      pass(1, facts(standing, {"s" + std::to_string(i % 15)}));
      if (told() != standing) continue;
      ASSERT_FALSE(window_.told()->services.empty()) << i;
    }
    ASSERT_EQ(told(), standing);
    EXPECT_EQ(window_.told()->services.size(), 15U);
  }
}

// It misses in six intervals of a minute, each of the others in five.
TEST_F(VerdictTest, WhoMissesALittleMoreOftenIsNotNamedAlone) {
  for (int i = 0; i < 120; ++i) pass(1, facts(Standing::Missed, {"s" + std::to_string(i % 11 % 10)}));
  EXPECT_EQ(window_.told()->services.size(), 10U);
}

TEST_F(VerdictTest, AnAgentThatWasStoppedForAnHourSawOneInterval) {
  pass(60, facts(Standing::Met));
  now_s_ += 3600;
  pass(1, facts(Standing::Missed));
  EXPECT_EQ(told(), Standing::Met);
}

TEST(VerdictWindow, LongIntervalsMakeALongWindow) {
  VerdictWindow window(300);
  for (int i = 1; i <= 2; ++i) window.see(facts(Standing::Missed), 300.0 * i);
  EXPECT_FALSE(window.told());
  window.see(facts(Standing::Missed), 900);
  ASSERT_TRUE(window.told());
  EXPECT_EQ(window.told()->standing, Standing::Missed);
}

// Whatever comes, the news is one that half of the window at least is made of.
TEST(VerdictWindow, TellsOnlyWhatWasSeen) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    VerdictWindow window(1.0);
    std::optional<Standing> last;
    std::vector<Standing> seen;
    for (int second = 1; second <= 1000; ++second) {
      // Runs of one state, as nodes have them, and states that mix.
      const bool stays = !seen.empty() && random() % 20 != 0;
      seen.push_back(stays ? seen.back() : static_cast<Standing>(random() % standings));
      window.see(facts(seen.back()), second);
      if (!window.told() || window.told()->standing == last) continue;
      last = window.told()->standing;
      const auto half = std::count_if(seen.end() - std::min<std::ptrdiff_t>(second, 65), seen.end(), [&](Standing one) {
        return one == *last || (*last == Standing::Missed && one == Standing::Infeasible);
      });
      EXPECT_GE(half, 30) << "seed " << seed << " second " << second;
    }
    EXPECT_TRUE(last) << seed;
  }
}

}  // namespace
}  // namespace osml
