// Services that pods ask for, through the whole actuator: a cgroup tree, a kubelet that says what the test wants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apply/actuator.h"
#include "base/cpuset.h"
#include "pod_fixture.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing_support::id_of;
using testing_support::PodServiceTest;

// Two services of annotations beside the one of the configuration.
class AskingPodTest : public PodServiceTest {
 protected:
  AskingPodTest() {
    config_.kubelet.discover.namespaces = {"shop"};
    config_.kubelet.discover.datagram_directory = tree_ / "sockets";
  }
  Pod& ask(const std::string& name, const std::string& uid, unsigned number,
           const std::map<std::string, std::string>& asks) {
    Pod& pod = start(name, uid, number, static_cast<int>(number));
    pod.labels.clear();
    pod.asks = asks;
    return pod;
  }
  static Decision division(const std::vector<std::pair<std::string, std::string>>& shares) {
    Decision made;
    made.node = "n";
    for (const auto& [service, cpus] : shares) {
      made.partition.regions.push_back({{service}, static_cast<unsigned>(parse_cpulist(cpus)->size()), 0});
      made.assignments.push_back({service, cpus, {}, {}, {}, {}});
    }
    return made;
  }
  static const std::map<std::string, std::string> job;
};
const std::map<std::string, std::string> AskingPodTest::job = {{"class", "be"}, {"container", "app"}};

TEST_F(AskingPodTest, APodThatAsksIsManagedBesideTheOthersAndLeavesNothing) {
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  ASSERT_EQ(actuator->places().size(), 1U);
  ask("batch", "2b", 2, job);
  ASSERT_TRUE(actuator->reconcile());
  ASSERT_EQ(actuator->places().size(), 2U);
  EXPECT_EQ(actuator->config().services[1].spec.name, "shop.batch");
  EXPECT_EQ(actuator->config().services[1].spec.source, "pod shop/batch");
  ASSERT_EQ(actuator->apply(division({{"lc", "0-3"}, {"shop.batch", "4-7"}})).status, OutcomeStatus::Applied);
  EXPECT_EQ(cpus(scope_of("2b", 2)), "4-7");
  // It stops asking, and runs on.
  kubelet_.list[1].asks.clear();
  tree_.write("cgroup/" + slice_of("3c") + "/cgroup.procs", "");  // a reason to ask the kubelet
  ASSERT_TRUE(actuator->reconcile());
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->places().size(), 1U);
  EXPECT_EQ(cpus(scope_of("2b", 2)), "") << "restored";
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-3") << "the other one stays as it is";
  EXPECT_EQ(journal()["originals"].size(), 1U);
  EXPECT_EQ(journal()["applied"].size(), 1U);
}

TEST_F(AskingPodTest, AGuaranteedPodStaysManagedUnderAnotherName) {
  config_.services.clear();
  Pod& pod = ask("web", "1a", 1, {{"class", "be"}, {"container", "app"}, {"service", "web"}});
  pod.guaranteed = true;
  pod.containers[0].whole_cpus = 2;
  auto actuator = open();
  ASSERT_EQ(actuator->apply(division({{"shop.web", "0-1"}})).status, OutcomeStatus::Applied);
  kubelet_.list[0].asks["service"] = "front";
  tree_.write("cgroup/" + slice_of("f1") + "/cgroup.procs", "");  // a reason to ask the kubelet
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(actuator->reconcile());
  ASSERT_EQ(actuator->places().size(), 1U);
  EXPECT_EQ(actuator->places()[0].service, "shop.front");
  EXPECT_EQ(absent_in_words(actuator->places()), "");
}

TEST_F(AskingPodTest, ChangedAnnotationsAreFollowed) {
  config_.services.clear();
  ask("web", "1a", 1, {{"target-p99-ms", "10"}, {"latency", "datagram"}, {"container", "app"}});
  auto actuator = open();
  ASSERT_TRUE(actuator) << actuator.error().message;
  ASSERT_EQ(actuator->config().services.size(), 1U);
  EXPECT_EQ(actuator->config().services[0].spec.target_ms, 10);
  const Outcome outcome = actuator->apply(division({{"shop.web", "0-3"}}));
  ASSERT_EQ(outcome.status, OutcomeStatus::Applied) << outcome.message;
  const auto again = [&] {
    tree_.write("cgroup/" + slice_of("f" + std::to_string(kubelet_.asked)) + "/cgroup.procs", "");
    ASSERT_TRUE(actuator->reconcile());
  };
  kubelet_.list[0].asks["target-p99-ms"] = "20";
  again();
  EXPECT_EQ(actuator->config().services[0].spec.target_ms, 20);
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-3") << "it is the same service";
  kubelet_.list[0].asks["target-p99-ms"] = "fast";
  again();
  EXPECT_TRUE(actuator->config().services.empty());
  EXPECT_THAT(actuator->discovered().refused.at("shop/web"), HasSubstr("'fast', expected milliseconds"));
  EXPECT_EQ(cpus(scope_of("1a", 1)), "");
  kubelet_.list[0].asks["target-p99-ms"] = "10";
  kubelet_.list[0].asks.erase("latency");
  again();
  ASSERT_EQ(actuator->places().size(), 1U);
  EXPECT_TRUE(actuator->places()[0].watched);
  EXPECT_THAT(actuator->places()[0].why, HasSubstr("no latency source"));
  EXPECT_EQ(absent_in_words(actuator->places()), "");
  EXPECT_EQ(actuator->apply(division({})).status, OutcomeStatus::Unchanged) << "a decision need not name it";
}

TEST_F(AskingPodTest, AKubeletThatGoesAwayTakesNoServiceAlong) {
  config_.services.clear();
  ask("batch", "2b", 2, job);
  auto actuator = open();
  ASSERT_EQ(actuator->apply(division({{"shop.batch", "4-7"}})).status, OutcomeStatus::Applied);
  kubelet_.away = true;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->places().size(), 1U);
  EXPECT_EQ(cpus(scope_of("2b", 2)), "4-7");
  // Another agent knows nothing of it until the kubelet answers: what is in force stays until then.
  actuator = Error{ErrorKind::Busy, "", 0};
  actuator = open();
  EXPECT_TRUE(actuator->places().empty());
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus(scope_of("2b", 2)), "4-7");
  kubelet_.away = false;
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->places().size(), 1U);
  EXPECT_EQ(cpus(scope_of("2b", 2)), "4-7");
  EXPECT_EQ(journal()["applied"].size(), 1U);
}

TEST_F(AskingPodTest, ADecisionBeforeTheKubeletAnswersIsNotAboutPodsThatItDoesNotTell) {
  start("web-0", "1a", 1, 10);
  ask("batch", "2b", 2, job);
  auto actuator = open();
  ASSERT_EQ(actuator->apply(division({{"lc", "0-3"}, {"shop.batch", "4-7"}})).status, OutcomeStatus::Applied);
  actuator = Error{ErrorKind::Busy, "", 0};
  kubelet_.away = true;
  actuator = open();
  ASSERT_EQ(actuator->places().size(), 1U);
  for (const char* cpus : {"0-3", "0-2"}) {
    const Outcome outcome = actuator->apply(division({{"lc", cpus}}));
    ASSERT_TRUE(took_effect(outcome)) << outcome.message;
    ASSERT_TRUE(actuator->reconcile());
    ASSERT_EQ(journal()["applied"].size(), 2U);
    const nlohmann::json saved = journal();
    for (const auto& one : saved["applied"]) EXPECT_EQ(one.value("job", false), one["service"] == "shop.batch");
    EXPECT_EQ(actuator->cpus_in_force().at("shop.batch"), "4-7") << "the runtime would take them back";
  }
  EXPECT_EQ(this->cpus(scope_of("2b", 2)), "4-7");
  // The runtime starts anew and asks about all its containers.
  const auto answer = actuator->hear_of({7, ContainerQuestion::Stage::Look, "2b", "app", id_of(2), ""});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, (ContainerAnswer{7, "shop.batch", "4-7"}));
  EXPECT_EQ(actuator->hear_of({8, ContainerQuestion::Stage::Look, "9f", "app", id_of(9), ""})->service, "");
  kubelet_.away = false;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->places().size(), 2U);
  ASSERT_TRUE(took_effect(actuator->apply(division({{"lc", "0-3"}, {"shop.batch", "4-7"}}))));
  EXPECT_EQ(journal()["applied"].size(), 2U);
}

TEST_F(AskingPodTest, APodOfTheConfigurationBeforeIsNotKeptAsIfItMightAsk) {
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  ASSERT_EQ(actuator->apply(division({{"lc", "0-3"}})).status, OutcomeStatus::Applied);
  actuator = Error{ErrorKind::Busy, "", 0};
  config_.services.clear();
  kubelet_.away = true;
  actuator = open();
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(cpus(scope_of("1a", 1)), "");
}

TEST_F(AskingPodTest, WhatNobodyAsksForAnyMoreGoesWithTheKubeletsFirstAnswer) {
  config_.services.clear();
  ask("batch", "2b", 2, job);
  auto actuator = open();
  ASSERT_EQ(actuator->apply(division({{"shop.batch", "4-7"}})).status, OutcomeStatus::Applied);
  actuator = Error{ErrorKind::Busy, "", 0};
  kubelet_.list[0].asks.clear();
  kubelet_.away = true;
  actuator = open();
  EXPECT_EQ(cpus(scope_of("2b", 2)), "4-7");
  kubelet_.away = false;
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus(scope_of("2b", 2)), "");
  EXPECT_TRUE(journal()["originals"].empty());
  EXPECT_TRUE(journal()["applied"].empty());
}

TEST_F(AskingPodTest, AKubeletThatTellsNoPodsTakesNoServiceAlong) {
  config_.services.clear();
  ask("batch", "2b", 2, job);
  auto actuator = open();
  ASSERT_EQ(actuator->apply(division({{"shop.batch", "4-7"}})).status, OutcomeStatus::Applied);
  kubelet_.list.clear();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->places().size(), 1U);
  EXPECT_EQ(cpus(scope_of("2b", 2)), "4-7");
  tree_.write("cgroup/" + scope_of("2b", 2) + "/cgroup.procs", "");  // what is left of a pod
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(actuator->reconcile());
  EXPECT_TRUE(actuator->places().empty());
  EXPECT_TRUE(journal()["applied"].empty());
}

TEST_F(AskingPodTest, OfSeveralPodsOfOneNameTheManagedOneStaysOverARestart) {
  config_.services.clear();
  ask("web-1", "2b", 2, {{"class", "be"}, {"container", "app"}, {"service", "web"}});
  auto actuator = open();
  ASSERT_EQ(actuator->apply(division({{"shop.web", "4-7"}})).status, OutcomeStatus::Applied);
  ask("web-0", "1a", 1, {{"class", "be"}, {"container", "app"}, {"service", "web"}});
  for (int start = 0; start < 2; ++start) {
    actuator = Error{ErrorKind::Busy, "", 0};
    actuator = open();
    ASSERT_TRUE(actuator->reconcile());
    ASSERT_EQ(actuator->places().size(), 1U);
    EXPECT_EQ(actuator->places()[0].match.cgroup, scope_of("2b", 2));
    EXPECT_EQ(cpus(scope_of("2b", 2)), "4-7");
  }
  // A rollout: it goes, and another one beside the second comes.
  stop("2b");
  kubelet_.list.erase(kubelet_.list.begin());
  ask("web-2", "3c", 3, {{"class", "be"}, {"container", "app"}, {"service", "web"}});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(actuator->reconcile());
  ASSERT_EQ(actuator->places().size(), 1U);
  EXPECT_EQ(actuator->places()[0].match.cgroup, scope_of("1a", 1));
}

TEST_F(AskingPodTest, WhatOnePodAsksForIsSetForThatPodAlone) {
  config_.services.clear();
  config_.kubelet.discover.namespaces = {"*"};
  ask("bank", "1a", 1, {});
  Pod& thief = ask("thief", "2b", 2, job);
  thief.name_space = "evil";
  thief.config_hash = "1a";           // claims the other's cgroup
  thief.containers[0].id = id_of(1);  // and its container
  auto actuator = open();
  ASSERT_EQ(actuator->places().size(), 1U);
  EXPECT_TRUE(actuator->places()[0].absent) << *actuator->places()[0].match.cgroup;
  EXPECT_EQ(cpus(scope_of("1a", 1)), "");
}

TEST(AskPaceTest, AsksAtOnceWhenSomethingChangedAndSeldomOtherwise) {
  AskPace pace;
  const auto answer = [&](double now_s, bool all_found) {
    pace.answered(now_s);
    pace.judged(all_found);
  };
  EXPECT_TRUE(pace.due(0));
  answer(0, true);
  EXPECT_FALSE(pace.due(29));
  EXPECT_TRUE(pace.due(30));
  answer(30, true);
  pace.changed(30.2);
  EXPECT_FALSE(pace.due(30.5)) << "not twice a second";
  EXPECT_TRUE(pace.due(31));
  int asked = 0;
  for (double now = 31; now < 131; now += 0.5) {
    if (!pace.due(now)) continue;
    ++asked;
    answer(now, false);
  }
  EXPECT_LE(asked, 14) << "who is not here is not asked for all the time";
  pace.failed(200);
  pace.changed(200.5);
  EXPECT_FALSE(pace.due(200.9));
  pace.failed(201);
  EXPECT_FALSE(pace.due(202.9));
  EXPECT_TRUE(pace.due(203));
}

// The same with pods that ask: one, two or three at a time, some of which want the same name.
TEST_F(AskingPodTest, ManyLivesOfPodsThatAskLeaveNothingBehind) {
  const char* wanted = std::getenv("OSML_POD_LIVES");
  const auto lives = static_cast<unsigned>(wanted == nullptr ? 500 : std::stoul(wanted));
  constexpr unsigned seed = 13;
  unsigned random = seed;
  const auto chance = [&random](unsigned of) {
    random = random * 1103515245U + 12345U;
    return (random >> 16U) % of == 0;
  };
  config_.services.clear();
  fs::create_directory(tree_ / "state");
  auto actuator = open();
  ASSERT_TRUE(actuator);
  unsigned managed = 0;
  for (unsigned life = 1; life <= lives; ++life) {
    kubelet_.list.clear();
    const unsigned pods = 1 + (chance(2) ? 1U : 0U) + (chance(3) ? 1U : 0U);
    for (unsigned i = 0; i < pods; ++i) {
      const unsigned number = 10 * life + i;
      Pod& pod = ask("job-" + std::to_string(number), "a" + std::to_string(number), number, job);
      if (chance(4)) pod.asks["service"] = "same";
      if (chance(10)) pod.asks["class"] = "nonsense";
    }
    kubelet_.away = chance(20);
    ASSERT_TRUE(actuator->reconcile());
    std::vector<std::pair<std::string, std::string>> shares;
    for (const Place& place : actuator->places()) {
      if (!place.absent) shares.emplace_back(place.service, std::to_string(shares.size()));
    }
    const Outcome outcome = actuator->apply(division(shares));
    ASSERT_TRUE(took_effect(outcome)) << outcome.message;
    managed += shares.empty() ? 0 : 1;
    if (chance(50)) {
      actuator = Error{ErrorKind::Busy, "", 0};
      actuator = open();
      ASSERT_TRUE(actuator) << actuator.error().message;
    }
    for (const Pod& pod : kubelet_.list) stop(pod.uid);
    ASSERT_LE(journal()["originals"].size(), 6U);
  }
  kubelet_.list.clear();
  kubelet_.away = false;
  ASSERT_TRUE(actuator->reconcile());
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_GT(managed, lives / 2);
  EXPECT_TRUE(actuator->places().empty());
  EXPECT_TRUE(journal()["originals"].empty());
  EXPECT_TRUE(journal()["pending"].empty());
  EXPECT_TRUE(journal()["applied"].empty());
  EXPECT_TRUE(pod_directories(tree_.roots()).empty());
}

}  // namespace
}  // namespace osml
