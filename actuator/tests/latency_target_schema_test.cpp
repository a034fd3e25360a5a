// The CRD (deploy/kubernetes/latency-targets/crd.yaml) and the reader know the same keys, words and numbers. The reader
// lists what it knows in its messages, so it is asked by mistakes. Objects as a whole: latency_target_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "locate/annotations.h"
#include "locate/latency_target.h"

namespace osml {
namespace {

using nlohmann::json;
using Words = std::set<std::string>;

YAML::Node document() {
  return YAML::LoadFile(fs::path(__FILE__).parent_path().parent_path().parent_path() /
                        "deploy/kubernetes/latency-targets/crd.yaml");
}

YAML::Node spec() { return document()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]; }

DiscoverConfig rules() {
  DiscoverConfig discover;
  discover.namespaces = {"*"};
  return discover;
}

// What the reader says of a spec, for a pod that it selects.
std::string message_of(const json& given) {
  const json object = {{"metadata", {{"name", "web"}, {"namespace", "shop"}}}, {"spec", given}};
  const json list = {{"kind", "LatencyTargetList"}, {"items", json::array({object})}};
  const auto page = parse_targets(list.dump(), rules());
  if (!page) return page.error().message;
  if (!page->refused.empty()) return page->refused.begin()->second;
  Pod pod;
  pod.name_space = "shop";
  pod.ip = "10.1.2.3";
  const auto service = service_of(pod, page->targets.at(0), rules());
  return service ? "" : service.error().message;
}

json smallest() { return {{"selector", {{"matchLabels", {{"app", "web"}}}}}, {"targetP99Ms", 10}}; }

// As smallest(), with a good value at each place that the path leads over.
json with(const json::json_pointer& path, const json& value) {
  json made = smallest();
  const std::string text = path.to_string();
  if (text.starts_with("/latency/prometheus")) made["latency"]["prometheus"] = {{"port", 80}, {"metric", "m"}};
  if (text.starts_with("/selector/matchExpressions")) {
    made["selector"]["matchExpressions"] = json::array({{{"key", "a"}, {"operator", "In"}, {"values", {"b"}}}});
  }
  made[path] = value;
  return made;
}

Words words_of(const YAML::Node& node) {
  Words words;
  for (const auto& one : node) words.insert(node.IsSequence() ? one.Scalar() : one.first.Scalar());
  return words;
}

// Of "..., expected a, b, c".
Words expected_in(const std::string& message) {
  constexpr std::string_view start = "expected ";
  const std::size_t at = message.find(start);
  Words words;
  std::istringstream stream(at == std::string::npos ? "" : message.substr(at + start.size()));
  for (std::string word; std::getline(stream, word, ',');) words.insert(word.substr(word.find_first_not_of(' ')));
  return words;
}

void check_keys(const YAML::Node& node, const json::json_pointer& path, int& checked) {
  if (node["items"]) check_keys(node["items"], path / 0, checked);
  if (!node["properties"]) return;
  const std::string said = message_of(with(path / "qqqq", 1));
  EXPECT_NE(said.find("qqqq is not known"), std::string::npos) << path << ": " << said;
  EXPECT_EQ(expected_in(said), words_of(node["properties"])) << path << ": " << said;
  ++checked;
  for (const auto& property : node["properties"]) {
    check_keys(property.second, path / property.first.Scalar(), checked);
  }
}

TEST(LatencyTargetSchema, HasTheReadersKeysAndNoOthers) {
  int checked = 0;
  check_keys(spec(), json::json_pointer(), checked);
  EXPECT_EQ(checked, 5) << "spec, selector, matchExpressions, latency, prometheus";
}

TEST(LatencyTargetSchema, HasTheReadersWordsAndNoOthers) {
  const YAML::Node selector = spec()["properties"]["selector"]["properties"];
  EXPECT_EQ(words_of(selector["matchExpressions"]["items"]["properties"]["operator"]["enum"]),
            Words(label_operators.begin(), label_operators.end()));
  EXPECT_EQ(words_of(spec()["properties"]["class"]["enum"]), (Words{"lc", "be"}));
  EXPECT_EQ(message_of(with("/class"_json_pointer, "x")),
            "LatencyTarget shop/web: spec.class: 'x', expected lc (latency-critical) or be (best-effort)");
  const YAML::Node unit = spec()["properties"]["latency"]["properties"]["prometheus"]["properties"]["unit"];
  EXPECT_EQ(words_of(unit["enum"]), (Words{"seconds", "milliseconds"}));
  EXPECT_EQ(expected_in(message_of(with("/latency/prometheus/unit"_json_pointer, "x"))),
            Words{"seconds or milliseconds"});
}

// A value at the bound of the schema is taken, one beyond it is not.
TEST(LatencyTargetSchema, HasTheReadersBounds) {
  const YAML::Node selector = spec()["properties"]["selector"]["properties"];
  const YAML::Node rule = selector["matchExpressions"]["items"]["properties"];
  const YAML::Node prometheus = spec()["properties"]["latency"]["properties"]["prometheus"]["properties"];
  const auto labels = [](int count) {
    json made = json::object();
    for (int i = 0; i < count; ++i) made["l" + std::to_string(i)] = "v";
    return made;
  };
  const auto at = [](const char* path, const json& value) { return message_of(with(json::json_pointer(path), value)); };
  const int most_labels = selector["matchLabels"]["maxProperties"].as<int>();
  EXPECT_EQ(at("/selector/matchLabels", labels(most_labels)), "");
  EXPECT_NE(at("/selector/matchLabels", labels(most_labels + 1)), "");
  const int most_rules = selector["matchExpressions"]["maxItems"].as<int>();
  const json exists = {{"key", "a"}, {"operator", "Exists"}};
  EXPECT_EQ(at("/selector/matchExpressions", json(static_cast<std::size_t>(most_rules), exists)), "");
  EXPECT_NE(at("/selector/matchExpressions", json(static_cast<std::size_t>(most_rules) + 1, exists)), "");
  const auto most_values = rule["values"]["maxItems"].as<std::size_t>();
  EXPECT_EQ(at("/selector/matchExpressions/0/values", json(most_values, "v")), "");
  EXPECT_NE(at("/selector/matchExpressions/0/values", json(most_values + 1, "v")), "");
  const int most_metric_labels = prometheus["labels"]["maxProperties"].as<int>();
  EXPECT_EQ(at("/latency/prometheus/labels", labels(most_metric_labels)), "");
  EXPECT_NE(at("/latency/prometheus/labels", labels(most_metric_labels + 1)), "");
  for (const char* bound : {"minimum", "maximum"}) {
    const int step = std::string(bound) == "minimum" ? -1 : 1;
    const int port = prometheus["port"][bound].as<int>();
    EXPECT_EQ(at("/latency/prometheus/port", port), "");
    EXPECT_NE(at("/latency/prometheus/port", port + step), "");
  }
}

TEST(LatencyTargetSchema, IsOfTheVersionThatTheAgentAsksFor) {
  const YAML::Node crd = document()["spec"];
  EXPECT_EQ(crd["group"].Scalar() + "/" + crd["versions"][0]["name"].Scalar(), target_api);
  EXPECT_EQ(crd["names"]["kind"].Scalar(), target_kind);
  EXPECT_EQ(crd["names"]["plural"].Scalar(), "latencytargets");
}

}  // namespace
}  // namespace osml
