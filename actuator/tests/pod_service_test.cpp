// Services that are pods, through the whole actuator: a cgroup tree, a kubelet that says what the test wants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apply/actuator.h"
#include "pod_fixture.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing_support::id_of;
using testing_support::PodServiceTest;

TEST_F(PodServiceTest, AContainerIsFoundSetAndFollowedOverARestart) {
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(absent_in_words(actuator->places()), "");
  ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-3");
  // The kubelet starts it anew, and says so a little later.
  fs::remove_all(tree_ / ("cgroup/" + scope_of("1a", 1)));
  tree_.cgroup2(scope_of("1a", 2), 20);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->places()[0].why, "container 'app' of pod shop/web-0 does not run");
  EXPECT_TRUE(journal()["originals"].empty());
  kubelet_.list[0].containers[0].id = id_of(2);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_FALSE(actuator->places()[0].absent) << actuator->places()[0].why;
  EXPECT_EQ(cpus(scope_of("1a", 2)), "0-3") << "nobody decided anything meanwhile";
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus(scope_of("1a", 2)), "");
}

TEST_F(PodServiceTest, AKubeletThatGoesAwayTakesNothingAlong) {
  start("web-0", "1a", 1, 10);
  {
    auto actuator = open();
    ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
    kubelet_.away = true;
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(actuator->reconcile());
    EXPECT_FALSE(actuator->places()[0].absent);
    EXPECT_EQ(actuator->apply(decision("0-2")).status, OutcomeStatus::Applied);
  }
  // Another agent, which never hears of the kubelet, knows the place from the journal.
  auto next = open();
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_FALSE(next->places()[0].absent) << next->places()[0].why;
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-2");
  EXPECT_FALSE(next->kubelet()->up);
  stop("1a");
  ASSERT_TRUE(next->reconcile());
  EXPECT_TRUE(next->places()[0].absent);
  EXPECT_TRUE(journal()["originals"].empty());
}

// A kubelet that starts anew while the API server is away answers with an empty list.
TEST_F(PodServiceTest, APodThatTheKubeletNoLongerTellsStaysUntilItsCgroupGoes) {
  start("web-0", "1a", 1, 10);
  std::vector<Pod> none;
  {
    auto actuator = open();
    ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
    kubelet_.list.swap(none);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(actuator->reconcile());
    EXPECT_FALSE(actuator->places()[0].absent) << actuator->places()[0].why;
    EXPECT_THAT(actuator->places()[0].note, HasSubstr("the kubelet no longer tells pod shop/web-0"));
    EXPECT_EQ(journal()["originals"].size(), 1U);
    // Another pod that matches takes its place, as for one that is being deleted.
    start("web-1", "2b", 2, 20);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(actuator->reconcile());
    EXPECT_EQ(actuator->places()[0].match.cgroup, scope_of("2b", 2));
    kubelet_.list.swap(none);
    stop("2b");
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(actuator->reconcile());
    EXPECT_EQ(actuator->places()[0].match.cgroup, scope_of("1a", 1));
    EXPECT_THAT(actuator->places()[0].note, testing::IsEmpty());
  }
  kubelet_.list.clear();
  auto next = open();
  ASSERT_TRUE(next->reconcile());
  EXPECT_FALSE(next->places()[0].absent) << "the journal says where it is: " << next->places()[0].why;
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-3");
  stop("1a");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(next->reconcile());
  EXPECT_TRUE(next->places()[0].absent);
  EXPECT_TRUE(journal()["originals"].empty());
}

TEST_F(PodServiceTest, AContainerThatRestartsIsAskedForEachSecondUntilItIsFound) {
  start("web-0", "1a", 1, 10);
  PodFinder finder(config_, &kubelet_);
  const auto path_at = [&](double now_s) {
    finder.look(now_s);
    return finder.find("lc", *config_.services[0].match.pod).path;
  };
  EXPECT_EQ(path_at(0), scope_of("1a", 1));
  fs::remove_all(tree_ / ("cgroup/" + scope_of("1a", 1)));
  EXPECT_EQ(path_at(1), "") << "the kubelet still tells the old one";
  tree_.cgroup2(scope_of("1a", 2), 20);
  kubelet_.list[0].containers[0].id = id_of(2);
  EXPECT_EQ(path_at(2), scope_of("1a", 2));
  const int asked = kubelet_.asked;
  for (int now_s = 3; now_s < 32; ++now_s) (void)path_at(now_s);
  EXPECT_EQ(kubelet_.asked, asked) << "all are found";
}

TEST_F(PodServiceTest, WithoutAWordOfTheKubeletAStrangerIsNotManaged) {
  start("web-0", "1a", 1, 10);
  kubelet_.away = true;
  auto actuator = open();
  EXPECT_THAT(actuator->places()[0].why, HasSubstr("the kubelet has not told its pods yet"));
  // What another configuration meant by this name is not what this one means.
  kubelet_.away = false;
  ASSERT_TRUE(actuator->reconcile());
  ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  kubelet_.away = true;
  config_.services[0].match.pod->labels = {{"app", "other"}};
  actuator = Error{ErrorKind::Busy, "", 0};
  auto other = open();
  EXPECT_TRUE(other->places()[0].absent);
  EXPECT_EQ(cpus(scope_of("1a", 1)), "") << "restored";
}

TEST_F(PodServiceTest, TwoPodsAreRefusedUnlessOneIsManagedAlready) {
  start("web-0", "1a", 1, 10);
  start("web-1", "2b", 2, 20);
  {
    auto actuator = open();
    EXPECT_EQ(actuator->places()[0].why,
              "2 pods match, such as shop/web-0 and shop/web-1; expected one, make match.pod narrower");
    kubelet_.list[1].deleting = true;
    ASSERT_TRUE(actuator->reconcile());
    EXPECT_FALSE(actuator->places()[0].absent) << "one of them goes";
    ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  }
  kubelet_.list[1].deleting = false;
  auto actuator = open();
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_FALSE(actuator->places()[0].absent);
  EXPECT_THAT(actuator->places()[0].note, HasSubstr("the agent stays with shop/web-0"));
  EXPECT_EQ(cpus(scope_of("2b", 2)), "");
  // The old one ends, the new one is followed.
  stop("1a");
  kubelet_.list.erase(kubelet_.list.begin());
  ASSERT_TRUE(actuator->reconcile());
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->places()[0].match.cgroup, scope_of("2b", 2));
}

TEST_F(PodServiceTest, APodOfTwoServicesBelongsToTheFirst) {
  ServiceConfig second = config_.services[0];
  second.spec.name = "second";
  second.match.pod->container = "";
  config_.services.push_back(second);
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  EXPECT_FALSE(actuator->places()[0].absent);
  EXPECT_THAT(actuator->places()[1].why, HasSubstr("not apart from that of service 'lc', which stands before it"));
  ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  EXPECT_EQ(tree_.text("cgroup/" + slice_of("1a") + "/cgroup.procs"), "");
}

TEST_F(PodServiceTest, AClaimedHashLeadsToNoOtherPod) {
  config_.services[0].match.pod->container = "";
  start("bank", "bad", 2, 20).labels.clear();
  Pod& pod = start("web-0", "1a", 1, 10);
  stop("1a");
  pod.config_hash = "bad";  // whoever makes a pod writes its annotations
  auto actuator = open();
  EXPECT_TRUE(actuator->places()[0].absent);
  kubelet_.list.erase(kubelet_.list.begin());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(actuator->reconcile());
  EXPECT_TRUE(actuator->places()[0].absent) << "the other pod runs, though the kubelet tells it no longer";
  // Of a static pod the kubelet has no directory by its uid, and nobody else has the hash.
  actuator = Error{ErrorKind::Busy, "", 0};
  actuator = open();
  EXPECT_EQ(actuator->places()[0].match.cgroup, slice_of("bad"));
}

TEST_F(PodServiceTest, CpusOfTheKubeletsCpuManagerAreLeftAloneUnlessTaken) {
  Pod& pod = start("web-0", "1a", 1, 10);
  pod.guaranteed = true;
  pod.containers[0].whole_cpus = 2;
  tree_.write("cgroup/" + scope_of("1a", 1) + "/cpuset.cpus", "4-5\n");
  {
    auto actuator = open();
    EXPECT_THAT(actuator->places()[0].why, HasSubstr("has CPUs of its own from the kubelet's CPU manager"));
    EXPECT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Unchanged) << "a late answer";
    EXPECT_EQ(cpus(scope_of("1a", 1)), "4-5");
  }
  config_.kubelet.guaranteed = Guaranteed::Take;
  {
    auto actuator = open();
    ASSERT_EQ(actuator->apply(decision("0-1")).status, OutcomeStatus::Applied);
    EXPECT_EQ(cpus(scope_of("1a", 1)), "0-1");
    ASSERT_TRUE(actuator->restore());
    EXPECT_EQ(cpus(scope_of("1a", 1)), "4-5");
  }
  // Without the static CPU manager it has no CPUs of its own, also when the agent has given it as many as it asked for.
  config_.kubelet.guaranteed = Guaranteed::Leave;
  tree_.write("cgroup/" + scope_of("1a", 1) + "/cpuset.cpus", "\n");
  for (int start = 0; start < 2; ++start) {
    auto actuator = open();
    EXPECT_FALSE(actuator->places()[0].absent) << actuator->places()[0].why;
    (void)actuator->apply(decision("0-1"));
    ASSERT_TRUE(actuator->reconcile());
    EXPECT_EQ(cpus(scope_of("1a", 1)), "0-1");
  }
}

TEST_F(PodServiceTest, WhatAnAgentSetIsNobodysOwnAlsoUnderAnotherName) {
  Pod& pod = start("web-0", "1a", 1, 10);
  pod.guaranteed = true;
  pod.containers[0].whole_cpus = 2;
  {
    auto actuator = open();
    ASSERT_EQ(actuator->apply(decision("0-1")).status, OutcomeStatus::Applied);
  }
  config_.services[0].spec.name = "front";
  auto actuator = open();
  ASSERT_TRUE(actuator) << actuator.error().message;
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(absent_in_words(actuator->places()), "");
  EXPECT_EQ(cpus(scope_of("1a", 1)), "") << "restored: nobody decided for the new name";
}

TEST_F(PodServiceTest, AWholePodIsLeftAloneUntilTheCpusOfItsContainersAreKnown) {
  config_.services[0].match.pod->container = "";
  Pod& pod = start("web-0", "1a", 1, 10);
  pod.guaranteed = true;
  pod.containers[0].whole_cpus = 2;
  pod.containers[0].id.clear();
  {
    auto actuator = open();
    EXPECT_THAT(actuator->places()[0].why, HasSubstr("no container of pod shop/web-0 runs yet"));
    tree_.write("cgroup/" + scope_of("1a", 1) + "/cpuset.cpus", "4-5\n");
    pod.containers[0].id = id_of(1);
    ASSERT_TRUE(actuator->reconcile());
    EXPECT_THAT(actuator->places()[0].why, HasSubstr("has CPUs of its own from the kubelet's CPU manager"));
    // Its next container has none: the operator switched the CPU manager off.
    fs::remove_all(tree_ / ("cgroup/" + scope_of("1a", 1)));
    tree_.cgroup2(scope_of("1a", 2), 20);
    pod.containers[0].id = id_of(2);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(actuator->reconcile());
    EXPECT_FALSE(actuator->places()[0].absent) << actuator->places()[0].why;
  }
  // A container that has ended already says nothing, and a prelude is not waited for.
  pod.containers[0].id = id_of(3);
  EXPECT_TRUE(open()->places()[0].absent);
  pod.containers[0].init = true;
  EXPECT_FALSE(open()->places()[0].absent);
}

// A node's months in seconds: pods come, restart and go, the kubelet stumbles, the agent is restarted.
// OSML_POD_LIVES=10000 makes years of it.
TEST_F(PodServiceTest, ManyLivesLeaveNothingBehind) {
  const char* wanted = std::getenv("OSML_POD_LIVES");
  const auto lives = static_cast<unsigned>(wanted == nullptr ? 500 : std::stoul(wanted));
  constexpr unsigned seed = 7;
  unsigned random = seed;
  const auto chance = [&random](unsigned of) {
    random = random * 1103515245U + 12345U;
    return (random >> 16U) % of == 0;
  };
  fs::create_directory(tree_ / "state");
  auto actuator = open();
  ASSERT_TRUE(actuator);
  unsigned managed = 0;
  for (unsigned life = 1; life <= lives; ++life) {
    const std::string uid = "a" + std::to_string(life);
    kubelet_.list.clear();
    start("web-" + std::to_string(life), uid, life, 10);
    kubelet_.away = chance(20);
    ASSERT_TRUE(actuator->reconcile());
    if (!actuator->places()[0].absent) {
      ASSERT_TRUE(took_effect(actuator->apply(decision(life % 2 == 0 ? "0-3" : "2-5"))));
      ++managed;
    }
    if (chance(50)) {
      actuator = Error{ErrorKind::Busy, "", 0};
      actuator = open();
      ASSERT_TRUE(actuator) << actuator.error().message;
    }
    if (chance(5)) {  // the container alone
      fs::remove_all(tree_ / ("cgroup/" + scope_of(uid, life)));
      ASSERT_TRUE(actuator->reconcile());
      tree_.cgroup2(scope_of(uid, lives + life), 10);
      kubelet_.list[0].containers[0].id = id_of(lives + life);
      ASSERT_TRUE(actuator->reconcile());
    }
    stop(uid);
    ASSERT_LE(journal()["originals"].size(), 2U);
  }
  kubelet_.list.clear();
  kubelet_.away = false;
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_GT(managed, lives / 2);
  EXPECT_TRUE(journal()["originals"].empty());
  EXPECT_TRUE(journal()["pending"].empty());
  EXPECT_LE(journal()["applied"].size(), 1U);
  EXPECT_TRUE(pod_directories(tree_.roots()).empty());
}

}  // namespace
}  // namespace osml
