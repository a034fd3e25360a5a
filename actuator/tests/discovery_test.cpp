// Which pods become services, and who wins where two want the same.
#include "locate/discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace osml {
namespace {

using testing::HasSubstr;

class DiscoveryTest : public testing::Test {
 protected:
  DiscoveryTest() {
    rules_.namespaces = {"shop", "bank"};
    rules_.datagram_directory = "/run/osml";
  }
  Pod& add(const std::string& name, const std::string& name_space = "shop") {
    Pod pod;
    pod.name_space = name_space;
    pod.name = name;
    pod.uid = name;
    pod.labels = {{"app", name}};
    pod.containers = {{"app", std::string(64, 'a'), 0}};
    pod.asks = {{"target-p99-ms", "10"}, {"latency", "datagram"}};
    pods_.push_back(pod);
    return pods_.back();
  }
  // A LatencyTarget for the pods with this label.
  void target(const std::string& name, const std::string& app, const std::map<std::string, std::string>& asks,
              const std::string& name_space = "shop") {
    listed_.targets.push_back({name_space, name, {{"app", LabelOperator::In, {app}}}, asks});
  }
  [[nodiscard]] Discovered found(const std::vector<ServiceConfig>& before = {}) const {
    std::vector<const Pod*> running;
    for (const Pod& pod : pods_) running.push_back(&pod);
    TargetBook targets;
    (void)targets.take({"", listed_});
    return discover(running, rules_, configured_, before, targets);
  }
  static std::vector<std::string> names(const Discovered& found) {
    std::vector<std::string> names;
    for (const ServiceConfig& one : found.services) names.push_back(one.spec.name);
    return names;
  }

  DiscoverConfig rules_;
  std::vector<ServiceConfig> configured_;
  std::vector<Pod> pods_;
  TargetPage listed_;
};

using Names = std::vector<std::string>;

TEST_F(DiscoveryTest, OnlyPodsThatAskInNamespacesThatMay) {
  add("web");
  add("quiet").asks.clear();
  add("web", "elsewhere");
  const Discovered now = found();
  EXPECT_EQ(names(now), Names{"shop.web"});
  EXPECT_TRUE(now.refused.empty()) << "of namespaces that are not listed nothing is said";
  rules_.namespaces.clear();
  EXPECT_TRUE(found().services.empty());
}

TEST_F(DiscoveryTest, TheConfigurationWins) {
  add("web");
  ServiceConfig own;
  own.spec.name = "search";
  own.match.pod = PodMatch{"shop", "", {{"app", "web"}}, "app"};
  configured_ = {own};
  const Discovered won = found();
  EXPECT_THAT(won.services, testing::IsEmpty());
  EXPECT_THAT(won.refused, testing::IsEmpty()) << "it is as the operator wants it";
  EXPECT_THAT(won.waiting, testing::IsEmpty());
  configured_[0].match.pod->labels = {{"app", "other"}};
  EXPECT_EQ(names(found()), Names{"shop.web"});
  configured_[0].spec.name = "shop.web";
  EXPECT_THAT(found().refused.at("shop/web"), HasSubstr("has a service 'shop.web' already"));
  configured_[0].spec.name = "search";
  configured_[0].latency = LatencySource{};
  configured_[0].latency->datagram = "/run/x/../osml/shop.web.sock";
  EXPECT_THAT(found().refused.at("shop/web"), HasSubstr("its socket is also that of service 'search'"));
  EXPECT_TRUE(found().services.empty());
}

TEST_F(DiscoveryTest, APodThatIsManagedStaysWhileAnotherOfItsNameStarts) {
  add("web-1").asks["service"] = "web";
  const Discovered first = found();
  ASSERT_EQ(names(first), Names{"shop.web"});
  add("web-0").asks["service"] = "web";
  const Discovered both = found(first.services);
  ASSERT_EQ(names(both), Names{"shop.web"});
  EXPECT_EQ(both.services.front().spec.source, first.services.front().spec.source);
  EXPECT_THAT(both.waiting.at("shop/web-0"), HasSubstr("is shop/web-1 on this node; this pod follows"));
  EXPECT_THAT(both.refused, testing::IsEmpty()) << "two replicas are no mistake";
  pods_.front().deleting = true;
  EXPECT_THAT(*found(both.services).services.front().spec.source, HasSubstr("shop/web-0"));
}

TEST_F(DiscoveryTest, OfTwoNewPodsOfOneNameTheFirstIsTakenUnlessItIsOnItsWayOut) {
  add("web-0").asks["service"] = "web";
  add("web-1").asks["service"] = "web";
  const Discovered both = found();
  ASSERT_EQ(names(both), Names{"shop.web"});
  EXPECT_EQ(both.services[0].spec.source, "pod shop/web-0");
  EXPECT_THAT(both.waiting.at("shop/web-1"), HasSubstr("is shop/web-0 on this node; this pod follows"));
  EXPECT_EQ(both.waiting.size(), 1U);
  EXPECT_THAT(both.refused, testing::IsEmpty());
  pods_[0].deleting = true;
  const Discovered one = found();
  ASSERT_EQ(names(one), Names{"shop.web"});
  EXPECT_EQ(one.services[0].spec.source, "pod shop/web-1");
  EXPECT_TRUE(one.refused.empty());
  EXPECT_TRUE(one.waiting.empty());
}

TEST_F(DiscoveryTest, NoNamespaceTakesANameOfAnother) {
  add("web").asks["service"] = "bank.web";
  add("web", "bank");
  EXPECT_EQ(names(found()), (Names{"bank.web", "shop.bank.web"}));
}

TEST_F(DiscoveryTest, OneNamespaceFillsItsOwnPlacesAlone) {
  rules_.per_namespace = 2;
  add("m");
  add("z");
  add("web", "bank");
  const Discovered before = found();
  EXPECT_EQ(names(before), (Names{"bank.web", "shop.m", "shop.z"}));
  add("a");  // stands first by its name
  const Discovered now = found(before.services);
  EXPECT_EQ(names(now), names(before)) << "who is there is not pushed out";
  EXPECT_THAT(now.refused.at("shop/a"), HasSubstr("namespace shop has 2 services on this node already"));
}

TEST_F(DiscoveryTest, ANodeHasNoMoreThanTheWireAllows) {
  rules_.per_namespace = 64;
  configured_.resize(60);
  for (std::size_t i = 0; i < configured_.size(); ++i) configured_[i].spec.name = "s" + std::to_string(i);
  for (char c = 'a'; c <= 'z'; ++c) add(std::string(1, c));
  const Discovered now = found();
  EXPECT_EQ(now.services.size(), max_services - configured_.size());
  EXPECT_EQ(now.refused.size(), 22U);
}

TEST_F(DiscoveryTest, ATargetAsksForAPodThatDoesNotAskItself) {
  add("web-0").asks.clear();
  add("quiet").asks.clear();
  target("front", "web-0", {{"target-p99-ms", "20"}, {"latency", "datagram"}, {"container", "app"}});
  target("front", "web-0", {{"target-p99-ms", "30"}}, "bank");
  const Discovered now = found();
  ASSERT_EQ(names(now), Names{"shop.front"}) << "of its own namespace";
  EXPECT_EQ(now.services[0].spec.source, "LatencyTarget shop/front");
  EXPECT_EQ(now.services[0].spec.target_ms, 20);
  EXPECT_EQ(now.services[0].match.pod, (PodMatch{"shop", "web-0", {}, "app"}));
  EXPECT_EQ(now.services[0].latency->datagram, "/run/osml/shop.front.sock");
  EXPECT_TRUE(now.refused.empty());
}

TEST_F(DiscoveryTest, AnnotationsOfThePodWinOverATargetEvenWhereTheyAreWrong) {
  add("web");
  target("front", "web", {{"target-p99-ms", "20"}});
  EXPECT_EQ(names(found()), Names{"shop.web"});
  EXPECT_EQ(found().services[0].spec.source, "pod shop/web");
  pods_[0].asks = {{"targt", "1"}};
  EXPECT_TRUE(found().services.empty());
  EXPECT_THAT(found().refused.at("shop/web"), HasSubstr("annotation osml.dev/targt is not known"));
}

TEST_F(DiscoveryTest, TwoTargetsOfOnePodAreRefusedByName) {
  add("web").asks.clear();
  add("db").asks.clear();
  target("one", "web", {{"class", "be"}});
  target("two", "web", {{"class", "be"}});
  target("db", "db", {{"class", "be"}});
  const Discovered now = found();
  EXPECT_EQ(names(now), Names{"shop.db"});
  EXPECT_EQ(now.refused.at("shop/web"),
            "2 LatencyTargets select it, such as shop/one and shop/two; expected one, make spec.selector narrower");
}

TEST_F(DiscoveryTest, PodsOfOneTargetAreOneServiceOfWhichThePodThatIsThereStays) {
  add("web-1").asks.clear();
  pods_[0].labels = {{"app", "web"}};
  target("front", "web", {{"class", "be"}});
  const Discovered first = found();
  ASSERT_EQ(names(first), Names{"shop.front"});
  add("web-0").asks.clear();
  pods_[1].labels = {{"app", "web"}};
  EXPECT_THAT(found().waiting.at("shop/web-1"), HasSubstr("is shop/web-0 on this node"));
  const Discovered both = found(first.services);
  ASSERT_EQ(names(both), Names{"shop.front"});
  EXPECT_EQ(both.services[0].match.pod->name, "web-1");
  EXPECT_THAT(both.waiting.at("shop/web-0"), HasSubstr("is shop/web-1 on this node; this pod follows"));
  pods_[0].deleting = true;
  EXPECT_EQ(found(both.services).services[0].match.pod->name, "web-0");
}

TEST_F(DiscoveryTest, MistakesOfATargetAreCalledAsItsOwnerWritesThem) {
  add("web").asks.clear();
  const auto why = [&](const std::map<std::string, std::string>& asks) {
    listed_ = {};
    target("front", "web", asks);
    return found().refused.at("shop/web");
  };
  EXPECT_EQ(
      why({{"target-p99-ms", "0.5"}}),
      "LatencyTarget shop/front: spec.targetP99Ms: '0.5', expected milliseconds from 1 to 60000, which the operator "
      "of this node allows");
  EXPECT_THAT(why({{"class", "be"}, {"target-p99-ms", "1"}}),
              HasSubstr("expected no target for a job (spec.class: be)"));
  EXPECT_THAT(why({{"class", "be"}, {"container", "x"}}), HasSubstr("spec.container: 'x', expected the name of a"));
  EXPECT_THAT(why({{"class", "be"}, {"service", "a/b"}}), HasSubstr("spec.service: 'a/b', expected letters"));
  EXPECT_THAT(why({{"target-p99-ms", "1"}, {"latency", "prometheus:80/m"}, {"latency-metric", "m"}}),
              HasSubstr("spec.latency: the pod has no address of its own"));
  pods_[0].ip = "10.1.2.3";
  EXPECT_THAT(why({{"target-p99-ms", "1"}, {"latency", "prometheus:80/m"}, {"latency-metric", "0"}}),
              HasSubstr("spec.latency.prometheus.metric: '0', expected the name of a histogram"));
  rules_.datagram_directory.reset();
  EXPECT_THAT(why({{"target-p99-ms", "1"}, {"latency", "datagram"}}), HasSubstr("spec.latency: 'datagram', expected"));
  ServiceConfig own;
  own.spec.name = "shop.front";
  configured_ = {own};
  EXPECT_THAT(why({{"class", "be"}}), HasSubstr("has a service 'shop.front' already; set spec.service"));
}

TEST_F(DiscoveryTest, LimitsHoldForTargetsToo) {
  rules_.per_namespace = 2;
  rules_.spec.max_cores = 3;
  for (const char* name : {"a", "b", "c"}) {
    add(name).asks.clear();
    target(name, name, {{"class", "be"}});
  }
  const Discovered now = found();
  EXPECT_EQ(now.services.size(), 2U);
  EXPECT_EQ(now.services[0].spec.max_cores, 3U);
  EXPECT_THAT(now.refused.at("shop/c"), HasSubstr("namespace shop has 2 services on this node already"));
  rules_.namespaces = {"bank"};
  EXPECT_TRUE(found().services.empty());
}

TEST_F(DiscoveryTest, ThePodsOrderIsNoMatter) {
  for (const char* name : {"c", "a", "b"}) add(name);
  add("b2").asks["service"] = "b";
  const Discovered one = found();
  std::reverse(pods_.begin(), pods_.end());
  EXPECT_EQ(names(found()), names(one));
  EXPECT_EQ(names(one), (Names{"shop.a", "shop.b", "shop.c"}));
  EXPECT_EQ(one.services[1].spec.source, "pod shop/b");
}

}  // namespace
}  // namespace osml
