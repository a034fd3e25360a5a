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
  [[nodiscard]] Discovered found(const std::vector<ServiceConfig>& before = {}) const {
    std::vector<const Pod*> running;
    for (const Pod& pod : pods_) running.push_back(&pod);
    return discover(running, rules_, configured_, before);
  }
  static std::vector<std::string> names(const Discovered& found) {
    std::vector<std::string> names;
    for (const ServiceConfig& one : found.services) names.push_back(one.spec.name);
    return names;
  }

  DiscoverConfig rules_;
  std::vector<ServiceConfig> configured_;
  std::vector<Pod> pods_;
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
  EXPECT_THAT(found().refused.at("shop/web"), HasSubstr("has this pod already, as service 'search'"));
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
  EXPECT_THAT(both.refused.at("shop/web-0"), HasSubstr("is shop/web-1 on this node; this pod follows"));
  pods_.front().deleting = true;
  EXPECT_THAT(*found(both.services).services.front().spec.source, HasSubstr("shop/web-0"));
}

TEST_F(DiscoveryTest, TwoPodsOfOneNameGetNothingUnlessOneIsOnItsWayOut) {
  add("web-0").asks["service"] = "web";
  add("web-1").asks["service"] = "web";
  const Discovered both = found();
  EXPECT_TRUE(both.services.empty());
  EXPECT_THAT(both.refused.at("shop/web-0"), HasSubstr("2 pods ask for service 'shop.web', such as shop/web-0"));
  EXPECT_EQ(both.refused.size(), 2U);
  pods_[0].deleting = true;
  const Discovered one = found();
  ASSERT_EQ(names(one), Names{"shop.web"});
  EXPECT_EQ(one.services[0].spec.source, "pod shop/web-1");
  EXPECT_TRUE(one.refused.empty());
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

TEST_F(DiscoveryTest, ThePodsOrderIsNoMatter) {
  for (const char* name : {"c", "a", "b"}) add(name);
  add("b2").asks["service"] = "b";
  const Discovered one = found();
  std::reverse(pods_.begin(), pods_.end());
  EXPECT_EQ(names(found()), names(one));
  EXPECT_EQ(names(one), (Names{"shop.a", "shop.c"}));
}

}  // namespace
}  // namespace osml
