// What the kubelet says of its pods, and what it must not be believed.
#include "locate/pod_list.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace osml {
namespace {

using nlohmann::json;

const std::string id_of_app(64, 'a');

json pod() {
  return {{"metadata",
           {{"name", "web-0"},
            {"namespace", "shop"},
            {"uid", "0b1e-22"},
            {"labels", {{"app", "web"}, {"app.kubernetes.io/part-of", "shop"}}},
            {"managedFields", {{{"manager", "kubelet"}}}}}},
          {"spec",
           {{"containers",
             {{{"name", "app"},
               {"env", {{{"name", "SECRET"}}}},
               {"resources", {{"requests", {{"cpu", "2"}, {"memory", "1Gi"}}}}}},
              {{"name", "log"}, {"resources", {{"requests", {{"cpu", "1500m"}}}}}}}}}},
          {"status",
           {{"phase", "Running"},
            {"qosClass", "Guaranteed"},
            {"containerStatuses",
             {{{"name", "app"},
               {"containerID", "containerd://" + id_of_app},
               {"state", {{"running", {{"startedAt", "2026-11-24T10:00:00Z"}}}}}},
              {{"name", "log"},
               {"containerID", "containerd://" + id_of_app},
               {"state", {{"waiting", json::object()}}}}}}}}};
}

Result<std::vector<Pod>> parsed(const json& pods) {
  return parse_pods(json{{"kind", "PodList"}, {"apiVersion", "v1"}, {"items", pods}}.dump());
}

TEST(PodListTest, HasWhatFindsTheCgroup) {
  const auto pods = parsed(json::array({pod()}));
  ASSERT_TRUE(pods) << pods.error().message;
  ASSERT_EQ(pods->size(), 1U);
  const Pod& web = pods->front();
  EXPECT_EQ(web.full_name(), "shop/web-0");
  EXPECT_EQ(web.uid, "0b1e-22");
  EXPECT_EQ(web.labels.at("app.kubernetes.io/part-of"), "shop");
  EXPECT_TRUE(web.guaranteed);
  ASSERT_EQ(web.containers.size(), 2U);
  EXPECT_EQ(web.find("app")->id, id_of_app);
  EXPECT_EQ(web.find("app")->whole_cpus, 2U);
  EXPECT_EQ(web.find("log")->id, "") << "it does not run";
  EXPECT_EQ(web.find("log")->whole_cpus, 0U);
  EXPECT_EQ(web.find("sidecar"), nullptr);
}

TEST(PodListTest, HasWhatAPodAsksForAndNoOtherAnnotations) {
  json asking = pod();
  asking["metadata"]["annotations"] = {{"osml.dev/target-p99-ms", "10"},
                                       {"osml.dev/service", std::string(10240, 'a')},
                                       {"osml.dev/class", 7},
                                       {"osml.dev/" + std::string(400, 'k'), "v"},
                                       {"example.com/osml.dev/x", "y"}};
  asking["metadata"]["ownerReferences"] = {{{"kind", "Other"}, {"name", "no"}},
                                           {{"kind", "ReplicaSet"}, {"name", "web-1"}, {"controller", true}}};
  asking["spec"]["hostNetwork"] = true;
  asking["status"]["podIP"] = "10.1.2.3";
  asking["status"]["hostIP"] = "192.0.2.1";
  const Pod web = parsed(json::array({asking}))->front();
  ASSERT_EQ(web.asks.size(), 3U);
  EXPECT_EQ(web.asks.at("target-p99-ms"), "10");
  EXPECT_EQ(web.asks.at("service").size(), longest_pod_text + 1) << "its reader sees that it is too long";
  EXPECT_EQ(web.asks.at("class"), "");
  EXPECT_EQ(web.owner_kind + "/" + web.owner_name, "ReplicaSet/web-1");
  EXPECT_TRUE(web.host_network);
  EXPECT_EQ(web.ip + " " + web.host_ip, "10.1.2.3 192.0.2.1");
  EXPECT_TRUE(parsed(json::array({pod()}))->front().asks.empty());
}

TEST(PodListTest, NothingThatBecomesAPathIsTakenAsItIs) {
  for (const char* uid : {"../../system.slice", "a/b", "", "UPPER", "x y"}) {
    json bad = pod();
    bad["metadata"]["uid"] = uid;
    EXPECT_TRUE(parsed(json::array({bad}))->empty()) << uid;
  }
  for (const std::string& id :
       {std::string("../x"), std::string(63, 'a'), std::string(64, 'g'), std::string(65, 'a')}) {
    json bad = pod();
    bad["status"]["containerStatuses"][0]["containerID"] = "containerd://" + id;
    EXPECT_EQ(parsed(json::array({bad}))->front().find("app")->id, "") << id;
  }
  json nameless = pod();
  nameless["metadata"]["name"] = "a\nb";
  EXPECT_TRUE(parsed(json::array({nameless}))->empty());
}

TEST(PodListTest, StrangeShapesAreLeftOutAndTheRestIsRead) {
  const json strange = json::array({nullptr, 1, "pod", json::array(), json::object(), {{"metadata", nullptr}}, pod()});
  const auto pods = parsed(strange);
  ASSERT_TRUE(pods);
  EXPECT_EQ(pods->size(), 1U);
  json odd = pod();
  odd["metadata"]["labels"] = json::array({"app"});
  odd["spec"]["containers"] = "app";
  odd["status"]["containerStatuses"] = {{"name", "app"}};
  EXPECT_TRUE(parsed(json::array({odd}))->front().containers.empty());
  EXPECT_TRUE(parsed(nullptr)->empty()) << "a list without pods";
  EXPECT_EQ(parsed(json(std::vector<json>(most_pods + 5, pod())))->size(), most_pods);
  json many = pod();
  for (int i = 0; i < 1000; ++i) many["metadata"]["labels"]["l" + std::to_string(i)] = "v";
  EXPECT_LE(parsed(json::array({many}))->front().labels.size(), 128U);
}

TEST(PodListTest, WhatIsNoListOfPodsIsAnError) {
  for (const char* text : {"", "<html>", "[]", "{}", "Unauthorized", R"({"kind": "Status", "status": "Failure"})",
                           R"({"kind": "PodList", "items": [)"}) {
    EXPECT_FALSE(parse_pods(text)) << text;
  }
}

TEST(PodListTest, LabelsMatchTogetherAndTheNamespaceAlways) {
  const Pod web = parsed(json::array({pod()}))->front();
  EXPECT_TRUE(matches(web, {"shop", "web-0", {}, ""}));
  EXPECT_FALSE(matches(web, {"shop", "web-1", {}, ""}));
  EXPECT_FALSE(matches(web, {"other", "web-0", {}, ""}));
  EXPECT_TRUE(matches(web, {"shop", "", {{"app", "web"}}, ""}));
  EXPECT_FALSE(matches(web, {"shop", "", {{"app", "web"}, {"tier", "1"}}, ""}));
  EXPECT_FALSE(matches(web, {"other", "", {{"app", "web"}}, ""}));
  EXPECT_EQ(words_of({"shop", "", {{"app", "web"}}, "app"}), "a pod of namespace shop with app=web, container app");
}

}  // namespace
}  // namespace osml
