// A container that the runtime is about to start, through the whole actuator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apply/actuator.h"
#include "locate/ask_pace.h"
#include "pod_fixture.h"

namespace osml {
namespace {

using testing_support::id_of;
using Stage = ContainerQuestion::Stage;

class PodContainerTest : public testing_support::PodServiceTest {
 protected:
  static ContainerQuestion question(Stage stage, unsigned number, const std::string& uid = "1a",
                                    const std::string& container = "app") {
    return {number, stage, uid, container, id_of(number), ""};
  }
  ContainerAnswer ask(Actuator& actuator, const ContainerQuestion& question) {
    const auto answer = actuator.hear_of(question);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer ? *answer : ContainerAnswer{};
  }
  // The kubelet knows of a container of this pod, not its id.
  void forget_id(Pod& pod) { pod.containers[0].id.clear(); }
  void end(const std::string& uid, unsigned number) { fs::remove_all(tree_ / ("cgroup/" + scope_of(uid, number))); }
};

TEST_F(PodContainerTest, TheNextContainerOfAPodHasAllBeforeTheKubeletTellsItsId) {
  Pod& pod = start("web-0", "1a", 1, 10);
  auto actuator = open();
  ASSERT_TRUE(actuator) << actuator.error().message;
  ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  EXPECT_EQ(actuator->cpus_in_force(), (CpusInForce{{"lc", "0-3"}}));
  end("1a", 1);
  EXPECT_EQ(ask(*actuator, question(Stage::Look, 2)), (ContainerAnswer{2, "lc", "0-3"}));
  tree_.cgroup2(scope_of("1a", 2), 20);
  EXPECT_EQ(ask(*actuator, question(Stage::Start, 2)), (ContainerAnswer{2, "lc", "0-3"}));
  EXPECT_EQ(cpus(scope_of("1a", 2)), "0-3");
  // The kubelet is behind: it tells the old id, then none, then the new one.
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(absent_in_words(actuator->places()), "");
  forget_id(pod);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(absent_in_words(actuator->places()), "");
  pod.containers[0].id = id_of(2);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(absent_in_words(actuator->places()), "");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus(scope_of("1a", 2)), "");
}

TEST_F(PodContainerTest, WhatARuntimeOverwritesIsSetAgain) {
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  ASSERT_TRUE(actuator);
  ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  tree_.write("cgroup/" + scope_of("1a", 1) + "/cpuset.cpus", "0-7\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-7") << "another program's setting is reported, and left to the next decision";
  actuator->expect_overwriting();
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-3");
  tree_.write("cgroup/" + scope_of("1a", 1) + "/cpuset.cpus", "0-7\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-3") << "the runtime may have written after the first look";
}

TEST_F(PodContainerTest, ACpuThatCameBackIsNotForgottenWhereAContainerWasAskedAboutFirst) {
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  ASSERT_TRUE(actuator);
  ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  tree_.write("sys/devices/system/cpu/online", "0-6\n").write("cgroup/" + scope_of("1a", 1) + "/cpuset.cpus", "0-2\n");
  ASSERT_TRUE(actuator->look());
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-3");
}

TEST_F(PodContainerTest, WhatAContainerHadAtItsStartIsPutBackAlsoWhereTheRuntimeMayHaveWritten) {
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  ASSERT_TRUE(actuator);
  ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  end("1a", 1);
  EXPECT_EQ(ask(*actuator, question(Stage::Look, 2)), (ContainerAnswer{2, "lc", "0-3"}));
  actuator->expect_overwriting();
  tree_.cgroup2(scope_of("1a", 2), 20);
  EXPECT_EQ(ask(*actuator, question(Stage::Start, 2)), (ContainerAnswer{2, "lc", "0-3"}));
  EXPECT_EQ(cpus(scope_of("1a", 2)), "0-3");
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus(scope_of("1a", 2)), "");
}

TEST_F(PodContainerTest, TheContainersOfAWholePodInheritItsCpus) {
  config_.services[0].match.pod->container.clear();
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  ASSERT_TRUE(actuator);
  EXPECT_EQ(ask(*actuator, question(Stage::Look, 2)), (ContainerAnswer{2, "lc", ""})) << "the runtime writes none";
  EXPECT_THAT(actuator->cpus_in_force(), testing::IsEmpty());
}

TEST_F(PodContainerTest, APodThatTheKubeletHasNotToldIsAskedForAtOnce) {
  auto actuator = open();
  ASSERT_TRUE(actuator);
  ASSERT_TRUE(actuator->reconcile());
  const int asked = kubelet_.asked;
  start("web-0", "1a", 1, 10);
  forget_id(kubelet_.list[0]);
  EXPECT_EQ(ask(*actuator, question(Stage::Look, 1)), (ContainerAnswer{1, "lc", ""})) << "nothing was decided yet";
  EXPECT_EQ(kubelet_.asked, asked + 1);
  EXPECT_EQ(ask(*actuator, question(Stage::Start, 1)), (ContainerAnswer{1, "lc", ""}));
  EXPECT_EQ(absent_in_words(actuator->places()), "") << "found without the kubelet's word of its id";
}

TEST_F(PodContainerTest, OthersAreOfNoService) {
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  ASSERT_TRUE(actuator);
  ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  EXPECT_EQ(ask(*actuator, question(Stage::Look, 5, "1a", "side")).service, "");
  EXPECT_EQ(ask(*actuator, question(Stage::Look, 6, "2b")).service, "") << "a pod that nobody knows";
  // One more pod with the same labels: the service stays with the first one as long as that runs.
  start("web-1", "2b", 7, 70);
  EXPECT_EQ(ask(*actuator, question(Stage::Look, 7, "2b")).service, "");
  stop("1a");
  EXPECT_EQ(ask(*actuator, question(Stage::Look, 7, "2b")), (ContainerAnswer{7, "lc", "0-3"}));
}

TEST_F(PodContainerTest, CpusOfTheKubeletsOwnAreLeftToIt) {
  Pod& pod = start("web-0", "1a", 1, 10);
  auto actuator = open();
  ASSERT_TRUE(actuator);
  ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  pod.guaranteed = true;
  pod.containers[0].whole_cpus = 2;
  end("1a", 1);
  ASSERT_TRUE(actuator->reconcile());
  ContainerQuestion owning = question(Stage::Look, 2);
  owning.kubelet_cpus = "4-5";
  EXPECT_EQ(ask(*actuator, owning).service, "");
  tree_.cgroup2(scope_of("1a", 2), 20);
  tree_.write("cgroup/" + scope_of("1a", 2) + "/cpuset.cpus", "4-5\n");
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus(scope_of("1a", 2)), "4-5");
}

TEST_F(PodContainerTest, AsManyCpusAsAPodAskedForAreNotTakenForTheKubeletsOwn) {
  Pod& pod = start("web-0", "1a", 1, 10);
  pod.guaranteed = true;
  pod.containers[0].whole_cpus = 2;
  auto actuator = open();
  ASSERT_TRUE(actuator);
  ASSERT_EQ(actuator->apply(decision("0-1")).status, OutcomeStatus::Applied);
  end("1a", 1);
  forget_id(pod);
  ASSERT_EQ(ask(*actuator, question(Stage::Look, 2)).cpus, "0-1") << "the runtime sets them before the agent sees it";
  tree_.cgroup2(scope_of("1a", 2), 20);
  tree_.write("cgroup/" + scope_of("1a", 2) + "/cpuset.cpus", "0-1\n");
  EXPECT_EQ(ask(*actuator, question(Stage::Start, 2)).service, "lc");
  pod.containers[0].id = id_of(2);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(absent_in_words(actuator->places()), "");
}

TEST_F(PodContainerTest, WhoOnlyLooksSetsNothing) {
  start("web-0", "1a", 1, 10);
  auto actuator = Actuator::open(config_, {.read_only = true, .pods = &kubelet_});
  ASSERT_TRUE(actuator);
  EXPECT_FALSE(actuator->hear_of(question(Stage::Start, 1)));
}

TEST(AskOutOfTurn, OncePerBurstAndNotWhereTheKubeletFails) {
  AskPace pace;
  EXPECT_TRUE(pace.may_ask_out_of_turn(100));
  pace.answered(100);
  EXPECT_FALSE(pace.may_ask_out_of_turn(100.01));
  EXPECT_TRUE(pace.may_ask_out_of_turn(100.1));
  pace.failed(101);
  EXPECT_FALSE(pace.may_ask_out_of_turn(101.5));
  EXPECT_TRUE(pace.may_ask_out_of_turn(102));
}

}  // namespace
}  // namespace osml
