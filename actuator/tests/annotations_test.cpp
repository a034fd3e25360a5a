// What a pod may ask for, and what whoever makes pods must not get by it.
#include "locate/annotations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "config/url.h"
#include "domain/forms.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Asks = std::map<std::string, std::string>;

DiscoverConfig rules() {
  DiscoverConfig discover;
  discover.namespaces = {"shop"};
  discover.datagram_directory = "/run/osml";
  return discover;
}

Pod pod(const Asks& asks) {
  Pod web;
  web.name_space = "shop";
  web.name = "web-6d4c-x2x4";
  web.owner_kind = "ReplicaSet";
  web.owner_name = "web-6d4c";
  web.labels = {{"pod-template-hash", "6d4c"}};
  web.ip = "10.1.2.3";
  web.host_ip = "192.0.2.17";
  web.containers = {{"app", std::string(64, 'a'), 0}, {"log", "", 0}};
  web.asks = asks;
  return web;
}

std::string refusal(const Pod& asking, const DiscoverConfig& discover = rules()) {
  const auto service = service_of(asking, discover);
  return service ? "" : service.error().message;
}

TEST(AnnotationsTest, ATargetAndALatencyMakeAService) {
  const auto service = service_of(pod({{"target-p99-ms", "10"},
                                       {"container", "app"},
                                       {"latency", "prometheus:9102/metrics"},
                                       {"latency-metric", "http_request_duration_seconds"},
                                       {"latency-labels", "handler=/search,method=GET"}}),
                                  rules());
  ASSERT_TRUE(service) << service.error().message;
  EXPECT_EQ(service->spec.name, "shop.web");
  EXPECT_EQ(service->spec.kind, "lc");
  EXPECT_EQ(service->spec.target_ms, 10);
  EXPECT_EQ(service->spec.percentile, "p99");
  EXPECT_EQ(service->spec.source, "pod shop/web-6d4c-x2x4");
  EXPECT_EQ(service->match.pod, (PodMatch{"shop", "web-6d4c-x2x4", {}, "app"}));
  EXPECT_EQ(service->latency->prometheus->url, "http://10.1.2.3:9102/metrics");
  EXPECT_EQ(service->latency->prometheus->labels, (Asks{{"handler", "/search"}, {"method", "GET"}}));
  EXPECT_TRUE(service->latency->prometheus->of_pod);
  EXPECT_FALSE(service->watched);
}

TEST(AnnotationsTest, AJobNeedsNoMoreThanItsClassAndAServiceWithoutLatencyIsOnlyWatched) {
  const auto job = service_of(pod({{"class", "be"}}), rules());
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->spec.kind, "be");
  EXPECT_FALSE(job->watched);
  const auto quiet = service_of(pod({{"target-p99-ms", "10"}}), rules());
  ASSERT_TRUE(quiet);
  EXPECT_TRUE(quiet->watched);
  const auto sends = service_of(pod({{"target-p99-ms", "10"}, {"latency", "datagram"}, {"service", "find"}}), rules());
  ASSERT_TRUE(sends);
  EXPECT_EQ(sends->latency->datagram, "/run/osml/shop.find.sock");
}

TEST(AnnotationsTest, AServiceHasTheNameOfWhatStaysWhenPodsChange) {
  Pod one = pod({{"class", "be"}});
  EXPECT_EQ(service_of(one, rules())->spec.name, "shop.web");
  one.labels.clear();
  EXPECT_EQ(service_of(one, rules())->spec.name, "shop.web-6d4c") << "nobody tells which part is the hash";
  one.labels = {{"rollouts-pod-template-hash", "6d4c"}};
  EXPECT_EQ(service_of(one, rules())->spec.name, "shop.web");
  one.owner_kind = "DaemonSet";
  one.owner_name = "log";
  EXPECT_EQ(service_of(one, rules())->spec.name, "shop.log");
  one.owner_kind = "StatefulSet";
  one.name = "db-0";
  EXPECT_EQ(service_of(one, rules())->spec.name, "shop.db-0");
  one.owner_kind = one.owner_name = "";
  EXPECT_EQ(service_of(one, rules())->spec.name, "shop.db-0");
}

TEST(AnnotationsTest, GarbageIsRefusedWithOneSentence) {
  const Asks good = {{"target-p99-ms", "10"}};
  const auto with = [&](const char* key, const std::string& value) {
    Asks asks = good;
    asks[key] = value;
    return refusal(pod(asks));
  };
  const std::string range = "expected milliseconds from 1 to 60000";
  for (const std::string& value :
       {std::string("fast"), std::string("-1"), std::string("0"), std::string("1e999"), std::string("nan"),
        std::string("inf"), std::string(""), std::string("10 ms"), std::string("10\0", 3), std::string("60001"),
        std::string("0.5"), std::string("0x10"), std::string("\xff")}) {
    EXPECT_THAT(with("target-p99-ms", value), HasSubstr(range)) << value;
  }
  EXPECT_EQ(refusal(pod({{"service", "web"}})),
            "annotation osml.dev/target-p99-ms: missing, " + range + ", which the operator of this node allows");
  EXPECT_THAT(with("target-p99-ms", std::string(318, '1')), HasSubstr("expected at most 317 bytes"));
  EXPECT_THAT(with("class", "guaranteed"), HasSubstr("expected lc"));
  EXPECT_THAT(with("service", "a/../b"), HasSubstr("osml.dev/service: 'a/../b', expected letters"));
  EXPECT_THAT(with("service", std::string(60, 'a')), HasSubstr("at most 63 in all"));
  EXPECT_THAT(with("container", "sidecar"), HasSubstr("expected the name of a container of the pod"));
  EXPECT_EQ(with("targt-p99-ms", "1"),
            "annotation osml.dev/targt-p99-ms is not known to this version of the agent; "
            "did you mean osml.dev/target-p99-ms?");
  EXPECT_THAT(with("v2", "1"), HasSubstr("is not known to this version of the agent; remove it"));
  EXPECT_THAT(with("latency-metric", "m"), HasSubstr("without osml.dev/latency"));
  EXPECT_THAT(with("service", "a\nb\x1b[31m"), HasSubstr("'a?b?[31m'")) << "nothing that a terminal obeys";
  EXPECT_THAT(refusal(pod({{"class", "be"}, {"target-p99-ms", "1"}})), HasSubstr("expected no target for a job"));
}

TEST(AnnotationsTest, AnAddressIsThePodsOwnAndNothingElse) {
  const auto with = [](const std::string& latency, const std::string& ip, bool host_network = false) {
    Pod one = pod({{"target-p99-ms", "1"}, {"latency", latency}, {"latency-metric", "m"}});
    one.ip = ip;
    one.host_network = host_network;
    return one;
  };
  EXPECT_EQ(service_of(with("prometheus:80/m", "fd00::7"), rules())->latency->prometheus->url, "http://[fd00::7]:80/m");
  for (const char* place :
       {"prometheus:9102", "prometheus:0/m", "prometheus:65536/m", "prometheus:-1/m", "prometheus:/m",
        "prometheus:", "prometheus:80/m?x=1", "prometheus:80/m#x", "prometheus:80/a b", "prometheus:80/%2e",
        "prometheus:80@evil/m", "prometheus:http://evil/m", "prometheus:evil:80/m", "prometheus:80\\evil/m",
        "file:/etc/shadow", "datagram:/run/x.sock", "datagram:../x", "PROMETHEUS:80/m", ""}) {
    EXPECT_THAT(refusal(with(place, "10.1.2.3")), HasSubstr("expected datagram, or prometheus:PORT/PATH")) << place;
  }
  for (const char* ip : {"", "127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.17",
                         "evil.example", "::1", "fe80::1", "::ffff:169.254.169.254", "::ffff:127.0.0.1", "ff02::1",
                         "10.1.2.3:80", "10.1.2.3@evil", "0x7f.1", "017700000001"}) {
    EXPECT_THAT(refusal(with("prometheus:80/m", ip)), HasSubstr("the pod has no address of its own")) << ip;
  }
  EXPECT_THAT(refusal(with("prometheus:10250/pods", "10.1.2.3", true)), HasSubstr("hostNetwork"));
  DiscoverConfig no_sockets = rules();
  no_sockets.datagram_directory.reset();
  EXPECT_THAT(refusal(with("datagram", "10.1.2.3"), no_sockets), StartsWith("annotation osml.dev/latency: 'datagram'"));
}

TEST(AnnotationsTest, TheOperatorSaysWhoMayAskAndForWhat) {
  EXPECT_TRUE(may_ask(rules(), "shop"));
  EXPECT_FALSE(may_ask(rules(), "shopping"));
  EXPECT_FALSE(may_ask({}, "shop"));
  DiscoverConfig all;
  all.namespaces = {"*"};
  EXPECT_TRUE(may_ask(all, "kube-system"));
  DiscoverConfig limited = rules();
  limited.spec.max_cores = 4;
  limited.limits.max_core_step = 1;
  const auto service = service_of(pod({{"class", "be"}}), limited);
  EXPECT_EQ(service->spec.max_cores, 4U);
  EXPECT_EQ(service->limits.max_core_step, 1U);
}

// Whatever stands in the annotations: a refusal, or a service that the wire takes, in its own namespace, with a socket
// and an address that nobody chose.
TEST(AnnotationsTest, NothingThatIsTakenLeavesItsBounds) {
  constexpr unsigned seed = 11;
  std::mt19937 random(seed);
  const auto below = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most - 1)(random); };
  const std::vector<std::string> keys = {"target-p99-ms",  "class",          "service",      "container", "latency",
                                         "latency-metric", "latency-labels", "latency-unit", "other"};
  const std::vector<std::string> parts = {"10",
                                          "1e9",
                                          "-",
                                          ".",
                                          "/",
                                          "..",
                                          "lc",
                                          "be",
                                          "app",
                                          "datagram",
                                          "prometheus:",
                                          "80",
                                          "/metrics",
                                          "@",
                                          ":",
                                          "=",
                                          ",",
                                          "m",
                                          "seconds",
                                          std::string(1, '\0'),
                                          "\n",
                                          "\xc3",
                                          std::string(400, 'x'),
                                          "a",
                                          "[::1]",
                                          "%"};
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    Asks asks = {{"target-p99-ms", "10"}};
    for (std::size_t k = below(4); k > 0; --k) {
      std::string value;
      for (std::size_t n = below(4); n > 0; --n) value += parts[below(parts.size())];
      asks[keys[below(keys.size())]] = value;
    }
    const auto service = service_of(pod(asks), rules());
    if (!service) {
      EXPECT_LE(service.error().message.size(), 400U);
      continue;
    }
    ++taken;
    ASSERT_TRUE(is_name(service->spec.name)) << service->spec.name;
    ASSERT_THAT(service->spec.name, StartsWith("shop."));
    if (!service->latency) continue;
    ASSERT_FALSE(service->latency->file);
    if (const auto& socket = service->latency->datagram) {
      ASSERT_EQ(socket->parent_path(), "/run/osml");
    }
    if (const auto& prometheus = service->latency->prometheus) {
      ASSERT_EQ(host_of(prometheus->url), "10.1.2.3") << prometheus->url;
      ASSERT_FALSE(url_error(prometheus->url)) << prometheus->url;
    }
  }
  EXPECT_GT(taken, 500);
}

}  // namespace
}  // namespace osml
