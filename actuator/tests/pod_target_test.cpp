// Services that LatencyTargets ask for, through the whole actuator: over changes, restarts of the agent and containers
// that start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apply/actuator.h"
#include "base/cpuset.h"
#include "pod_fixture.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing_support::id_of;
using testing_support::PodServiceTest;

class PodTargetTest : public PodServiceTest {
 protected:
  PodTargetTest() {
    config_.services.clear();
    config_.kubelet.discover.namespaces = {"shop"};
    config_.kubelet.discover.latency_targets = true;
  }
  static LatencyTarget target(const std::string& name, const std::map<std::string, std::string>& asks) {
    return {"shop", name, {{"app", LabelOperator::In, {"web"}}}, asks};
  }
  static Decision all_to(const std::string& service, const std::string& cpus) {
    Decision made = decision(cpus);
    made.partition.regions = {{{service}, static_cast<unsigned>(parse_cpulist(cpus)->size()), 0}};
    made.assignments[0].service = service;
    return made;
  }
  static const std::map<std::string, std::string> job;
};
const std::map<std::string, std::string> PodTargetTest::job = {{"class", "be"}, {"container", "app"}};

TEST_F(PodTargetTest, ATargetComesChangesAndGoesAndLeavesNothing) {
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_TRUE(actuator->places().empty());
  actuator->take_targets({"", {{target("front", job)}}});
  EXPECT_TRUE(actuator->places().empty()) << "between an observation and its decision nothing changes";
  ASSERT_TRUE(actuator->reconcile());
  ASSERT_EQ(actuator->places().size(), 1U);
  EXPECT_EQ(actuator->config().services[0].spec.source, "LatencyTarget shop/front");
  ASSERT_EQ(actuator->apply(all_to("shop.front", "0-3")).status, OutcomeStatus::Applied);
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-3");
  actuator->take_targets({"", {{target("front", {{"target-p99-ms", "10"}, {"container", "app"}})}}});
  ASSERT_TRUE(actuator->reconcile());
  ASSERT_EQ(actuator->places().size(), 1U);
  EXPECT_TRUE(actuator->places()[0].watched);
  EXPECT_THAT(actuator->places()[0].why, HasSubstr("does not manage it; set spec.latency"));
  actuator->take_targets({"", {}});
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_TRUE(actuator->places().empty());
  EXPECT_EQ(cpus(scope_of("1a", 1)), "") << "restored";
  EXPECT_TRUE(journal()["originals"].empty());
}

TEST_F(PodTargetTest, ARestartOfTheAgentLetsNothingGoBeforeTheFirstList) {
  start("web-0", "1a", 1, 10);
  {
    auto actuator = open();
    actuator->take_targets({"", {{target("front", job)}, {{"shop/bad", "why"}}}});
    ASSERT_TRUE(actuator->reconcile());
    ASSERT_EQ(actuator->apply(all_to("shop.front", "0-3")).status, OutcomeStatus::Applied);
  }
  auto actuator = open();
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(actuator->places().size(), 1U);
  EXPECT_EQ(actuator->healed(), "");
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-3");
  // Somebody who only looks sees the same, and asks no API server.
  auto looks = Actuator::open(config_, {.read_only = true, .pods = &kubelet_});
  ASSERT_TRUE(looks);
  EXPECT_EQ(looks->config().services[0].spec.name, "shop.front");
  EXPECT_EQ(looks->targets().refused().at("shop/bad"), "why");
  // It was deleted while the agent was away.
  actuator->take_targets({"", {}});
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(cpus(scope_of("1a", 1)), "");
}

TEST_F(PodTargetTest, SwitchedOffItIsForgotten) {
  start("web-0", "1a", 1, 10);
  {
    auto actuator = open();
    actuator->take_targets({"", {{target("front", job)}}});
    ASSERT_TRUE(actuator->reconcile());
    ASSERT_EQ(actuator->apply(all_to("shop.front", "0-3")).status, OutcomeStatus::Applied);
  }
  config_.kubelet.discover.latency_targets = false;
  {
    auto actuator = open();
    EXPECT_TRUE(actuator->places().empty());
    EXPECT_EQ(cpus(scope_of("1a", 1)), "");
  }
  config_.kubelet.discover.latency_targets = true;
  auto actuator = open();
  EXPECT_TRUE(actuator->places().empty()) << "until the API server tells it anew";
}

TEST_F(PodTargetTest, AFileThatIsBrokenOrAnothersIsPassedOver) {
  start("web-0", "1a", 1, 10);
  ASSERT_TRUE(open());
  const fs::path file = tree_ / "state/latency-targets.json";
  tree_.write("state/latency-targets.json", "{");
  auto actuator = open();
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_TRUE(actuator->targets().targets().empty());
  actuator->take_targets({"", {{target("front", job)}}});
  actuator = Error{ErrorKind::Busy, "", 0};
  EXPECT_EQ(open()->targets().targets().size(), 1U);
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  EXPECT_TRUE(open()->targets().targets().empty()) << "whoever writes it says whom the agent manages";
}

TEST_F(PodTargetTest, AKubeletThatGoesAwayTakesNoServiceAlong) {
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  actuator->take_targets({"", {{target("front", job)}}});
  ASSERT_TRUE(actuator->reconcile());
  kubelet_.away = true;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->places().size(), 1U);
}

TEST_F(PodTargetTest, AContainerThatStartsIsOfTheServiceBeforeTheNextInterval) {
  auto actuator = open();
  actuator->take_targets({"", {{target("front", job)}}});
  start("web-0", "1a", 1, 10);
  ContainerQuestion question;
  question.number = 7;
  question.stage = ContainerQuestion::Stage::Look;
  question.pod_uid = "1a";
  question.id = id_of(1);
  question.container = "app";
  const auto answer = actuator->hear_of(question);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->service, "shop.front");
}

}  // namespace
}  // namespace osml
