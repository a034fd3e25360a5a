// What is read of LatencyTargets, and whom they select. golden/latency_targets.json has the objects that the CRD and
// this reader must agree on; tests/deploy/test_latency_targets.py asks the CRD.
#include "locate/latency_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "locate/annotations.h"
#include "locate/target_book.h"

namespace osml {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Labels = std::map<std::string, std::string>;

DiscoverConfig rules() {
  DiscoverConfig discover;
  discover.namespaces = {"shop", "bank"};
  discover.datagram_directory = "/run/osml";
  return discover;
}

json object(const json& spec, const std::string& name = "web", const std::string& name_space = "shop") {
  // as an API server tells it
  return {{"apiVersion", target_api},
          {"kind", target_kind},
          {"metadata",
           {{"name", name},
            {"namespace", name_space},
            {"uid", "0b1e"},
            {"annotations", {{"kubectl.kubernetes.io/last-applied-configuration", std::string(2000, 'x')}}},
            {"managedFields", {{{"manager", "kubectl"}, {"fieldsV1", {{"f:spec", {{"f:class", json::object()}}}}}}}}}},
          {"spec", spec},
          {"status", {{"later", "version"}}}};
}

std::string list(const std::vector<json>& items, const std::string& next = "") {
  return json{{"apiVersion", target_api},
              {"kind", "LatencyTargetList"},
              {"metadata", {{"resourceVersion", "812"}, {"continue", next}}},
              {"items", items}}
      .dump();
}

json selector(const json& expressions = json::array(), const json& labels = {{"app", "web"}}) {
  json made = json::object();
  if (!labels.empty()) made["matchLabels"] = labels;
  if (!expressions.empty()) made["matchExpressions"] = expressions;
  return made;
}

TargetPage read(const json& spec) {
  auto page = parse_targets(list({object(spec)}), rules());
  EXPECT_TRUE(page) << page.error().message;
  return page ? std::move(*page) : TargetPage{};
}

std::string refusal(const json& spec) {
  const TargetPage page = read(spec);
  EXPECT_EQ(page.targets.size() + page.refused.size(), 1U);
  return page.refused.empty() ? "" : page.refused.begin()->second;
}

TEST(LatencyTargetTest, SaysWhatAnnotationsSay) {
  const TargetPage page = read({{"selector", selector()},
                                {"container", "app"},
                                {"class", "lc"},
                                {"service", "search"},
                                {"targetP99Ms", 7.5},
                                {"latency",
                                 {{"prometheus",
                                   {{"port", 9090},
                                    {"path", "/metrics"},
                                    {"metric", "http_seconds"},
                                    {"labels", {{"handler", "/search"}, {"method", "GET"}}},
                                    {"unit", "milliseconds"}}}}}});
  ASSERT_EQ(page.targets.size(), 1U) << refusal({});
  EXPECT_EQ(page.targets[0].full_name(), "shop/web");
  EXPECT_EQ(page.targets[0].asks, (Labels{{"container", "app"},
                                          {"class", "lc"},
                                          {"service", "search"},
                                          {"target-p99-ms", "7.5"},
                                          {"latency", "prometheus:9090/metrics"},
                                          {"latency-metric", "http_seconds"},
                                          {"latency-labels", "handler=/search,method=GET"},
                                          {"latency-unit", "milliseconds"}}));
  EXPECT_EQ(read({{"selector", selector()}, {"latency", {{"datagram", json::object()}}}}).targets[0].asks,
            (Labels{{"latency", "datagram"}}));
  EXPECT_EQ(read({{"selector", selector()}, {"latency", {{"prometheus", {{"port", 80}, {"metric", "m"}}}}}})
                .targets[0]
                .asks.at("latency"),
            "prometheus:80/metrics");
}

TEST(LatencyTargetTest, AMistakeRefusesThisObjectAloneByOneSentence) {
  const auto with = [](const char* key, const json& value) {
    json spec = {{"selector", selector()}};
    spec[key] = value;
    return refusal(spec);
  };
  EXPECT_EQ(refusal(nullptr), "spec: missing, expected a mapping");
  EXPECT_EQ(refusal(json::object()), "spec.selector: missing, expected a mapping");
  EXPECT_EQ(with("selector", json::object()), "spec.selector: {}, expected at least one label, since it selects pods");
  EXPECT_THAT(with("selector", {{"matchLabels", {{"a b", "c"}}}}), HasSubstr("labels of Kubernetes may have"));
  EXPECT_THAT(with("selector", {{"matchLabel", {{"a", "c"}}}}), HasSubstr("spec.selector.matchLabel is not known"));
  EXPECT_THAT(with("selector", {{"matchExpressions", {{{"key", "a"}, {"operator", "Near"}}}}}),
              HasSubstr("matchExpressions[0].operator: 'Near', expected In, NotIn, Exists, DoesNotExist"));
  EXPECT_EQ(with("target", 1),
            "spec.target is not known to this version of the agent, expected selector, container, class, service, "
            "targetP99Ms, latency");
  EXPECT_EQ(with("targetP99Ms", "10"), "spec.targetP99Ms: '10', expected a number");
  EXPECT_THAT(with("container", 1), HasSubstr("spec.container: 1, expected a text"));
  EXPECT_THAT(with("service", std::string(318, 'a')), HasSubstr("expected a text of at most 317 bytes"));
  EXPECT_THAT(with("latency", json::object()), HasSubstr("expected exactly one of prometheus, datagram"));
  EXPECT_THAT(with("latency", {{"prometheus", {{"port", 70000}}}}),
              HasSubstr("prometheus.port: 70000, expected a port"));
  EXPECT_THAT(with("latency", {{"prometheus", {{"port", 80}, {"path", "/a b"}}}}), HasSubstr("path: '/a b', expected"));
  EXPECT_THAT(with("latency", {{"prometheus", {{"port", 80}, {"labels", {{"a", "b,c=d"}}}}}}),
              HasSubstr("without commas"));
  EXPECT_THAT(with("latency", {{"prometheus", {{"port", 80}, {"labels", {{"a=b", "c"}}}}}}),
              HasSubstr("names of letters, digits and _"));
  EXPECT_THAT(with("class\n", "lc"), HasSubstr("spec.class? is not known")) << "nothing that a terminal obeys";
  const auto page = parse_targets(list({object({{"selector", selector()}}), object({}, "bad"),
                                        object({{"selector", selector()}}, "out", "elsewhere")}),
                                  rules());
  ASSERT_TRUE(page);
  EXPECT_EQ(page->targets.size(), 1U) << "of namespaces that may not ask nothing is read";
  EXPECT_EQ(page->refused.size(), 1U);
}

TEST(LatencyTargetTest, AnotherVersionIsRefused) {
  json other = object({{"selector", selector()}});
  other["apiVersion"] = "osml.dev/v2";
  const auto page = parse_targets(list({other}), rules());
  ASSERT_TRUE(page);
  EXPECT_EQ(
      page->refused.at("shop/web"),
      "it is a LatencyTarget of osml.dev/v2, expected a LatencyTarget of osml.dev/v1alpha1, which this version of "
      "the agent reads");
}

TEST(LatencyTargetTest, NonsenseIsNoList) {
  for (const std::string& text :
       {std::string(), std::string("<html>"), std::string("[]"), std::string("null"), std::string("{}"),
        std::string(R"({"kind":"PodList","items":[]})"), std::string(R"({"kind":"LatencyTargetList","items":{}})"),
        list({}).substr(0, 40), std::string(100'000, '[')}) {
    EXPECT_FALSE(parse_targets(text, rules())) << text.substr(0, 40);
  }
  EXPECT_TRUE(parse_targets(R"({"kind":"LatencyTargetList","items":null})", rules()));
  EXPECT_EQ(parse_targets(list({}, "abc-_9"), rules())->next, "abc-_9");
  EXPECT_FALSE(parse_targets(list({}, "a&b"), rules())) << "it goes into the next address";
  std::string values = R"({"kind":"LatencyTargetList","items":[0)";
  for (int i = 0; i < 400'000; ++i) values += ",0";
  const auto of_numbers = parse_targets(values + "]}", rules());
  ASSERT_FALSE(of_numbers);
  EXPECT_THAT(of_numbers.error().message, HasSubstr("expected a list of LatencyTargets"));
  json busy = object({{"selector", selector()}});
  for (int i = 0; i < 200'000; ++i) busy["metadata"]["managedFields"].push_back(json::object());
  const auto dropped = parse_targets(list({busy}), rules());
  ASSERT_TRUE(dropped) << dropped.error().message;
  EXPECT_EQ(dropped->targets.size(), 1U) << "what is dropped is not counted";
}

TEST(LatencyTargetTest, DeepJsonTakesNoStack) {
  constexpr std::size_t deep = 200'000;
  const std::string nested = std::string(deep, '[') + std::string(deep, ']');
  for (const json& spec :
       {json{{"selector", selector()}, {"targetP99Ms", "@"}},
        json{{"selector", selector({{{"key", "app"}, {"operator", "In"}, {"values", "@"}}})}, {"targetP99Ms", 10}}}) {
    std::string text = list({object(spec), object({{"selector", selector()}, {"targetP99Ms", 10}}, "good")});
    text.replace(text.find("\"@\""), 3, nested);
    const auto page = parse_targets(text, rules());
    ASSERT_TRUE(page) << page.error().message;
    EXPECT_EQ(page->refused.size(), 1U);
    EXPECT_EQ(page->targets.size(), 1U);
  }
}

TEST(LatencyTargetTest, AnObjectOfVeryManyValuesIsRefusedAlone) {
  json values = json::array();
  for (int i = 0; i < 100'000; ++i) values.push_back(json::object());
  const json large = {{"selector", selector(values)}, {"targetP99Ms", 10}};
  const auto page =
      parse_targets(list({object(large), object({{"selector", selector()}, {"targetP99Ms", 10}}, "good")}), rules());
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_THAT(page->refused.at("shop/web"), HasSubstr("it has more than 400 values"));
  ASSERT_EQ(page->targets.size(), 1U);
  EXPECT_EQ(page->targets[0].name, "good");
}

TEST(LatencyTargetTest, AListOfVeryManyObjectsIsNone) {
  std::string many = "{}";
  for (int i = 0; i < 200'000; ++i) many += ",{}";
  const auto page = parse_targets(R"({"kind":"LatencyTargetList","items":[)" + many + "]}", rules());
  ASSERT_FALSE(page);
  EXPECT_THAT(page.error().message, HasSubstr("at most 4096 objects"));
}

TEST(SelectorTest, MeansWhatKubernetesMeans) {
  const auto chosen = [](const json& expressions, const Labels& labels, const json& match_labels = json::object()) {
    const TargetPage page = read({{"selector", selector(expressions, match_labels)}});
    EXPECT_EQ(page.targets.size(), 1U) << (page.refused.empty() ? "" : page.refused.begin()->second);
    return !page.targets.empty() && selects(page.targets[0].selector, labels);
  };
  const json in = {{{"key", "tier"}, {"operator", "In"}, {"values", {"front", "mid"}}}};
  EXPECT_TRUE(chosen(in, {{"tier", "mid"}}));
  EXPECT_FALSE(chosen(in, {{"tier", "back"}}));
  EXPECT_FALSE(chosen(in, {}));
  const json not_in = {{{"key", "tier"}, {"operator", "NotIn"}, {"values", {"front"}}}};
  EXPECT_FALSE(chosen(not_in, {{"tier", "front"}}));
  EXPECT_TRUE(chosen(not_in, {{"tier", "back"}}));
  EXPECT_TRUE(chosen(not_in, {})) << "a pod without the label has no such value";
  EXPECT_TRUE(chosen({{{"key", "a.b/c"}, {"operator", "Exists"}}}, {{"a.b/c", ""}}));
  EXPECT_FALSE(chosen({{{"key", "a"}, {"operator", "Exists"}}}, {{"b", ""}}));
  EXPECT_TRUE(chosen({{{"key", "a"}, {"operator", "DoesNotExist"}, {"values", json::array()}}}, {{"b", ""}}));
  EXPECT_FALSE(chosen({{{"key", "a"}, {"operator", "DoesNotExist"}}}, {{"a", ""}}));
  EXPECT_TRUE(chosen(in, {{"tier", "mid"}, {"app", "web"}}, {{"app", "web"}})) << "all of them hold";
  EXPECT_FALSE(chosen(in, {{"tier", "mid"}, {"app", "db"}}, {{"app", "web"}}));
  EXPECT_FALSE(selects({}, {{"app", "web"}})) << "an empty one would select all";
}

class TargetBookTest : public testing::Test {
 protected:
  static LatencyTarget target(const std::string& name, const std::string& name_space = "shop") {
    return {name_space, name, {{"app", LabelOperator::In, {"web"}}}, {{"class", "be"}}};
  }
  static Pod pod(const std::string& uid = "1a") {
    Pod web;
    web.name_space = "shop";
    web.name = "web-0";
    web.uid = uid;
    web.labels = {{"app", "web"}};
    return web;
  }
  TargetBook book_;
};

TEST_F(TargetBookTest, AListReplacesWhatWasKnownOfItsNamespaceAlone) {
  EXPECT_TRUE(book_.take({"", {{target("b"), target("a"), target("x", "bank")}}}));
  EXPECT_FALSE(book_.take({"", {{target("a"), target("x", "bank"), target("b")}}})) << "the same again is no news";
  EXPECT_EQ(book_.selecting(pod()).size(), 2U);
  EXPECT_TRUE(book_.take({"shop", {{target("c")}}}));
  ASSERT_EQ(book_.selecting(pod()).size(), 1U);
  EXPECT_EQ(book_.selecting(pod())[0]->name, "c");
  EXPECT_EQ(book_.targets().size(), 2U);
  EXPECT_TRUE(book_.take({"", {}}));
  EXPECT_TRUE(book_.targets().empty());
}

TEST_F(TargetBookTest, WhatIsChosenForAPodIsChosenAnewWhenPodsAreToldAnew) {
  (void)book_.take({"", {{target("a")}}});
  book_.see_pods(1);
  Pod one = pod();
  EXPECT_EQ(book_.selecting(one).size(), 1U);
  one.labels.clear();
  book_.see_pods(2);
  EXPECT_TRUE(book_.selecting(one).empty());
}

TEST_F(TargetBookTest, NoNamespaceTakesThePlaceOfOthers) {
  TargetPage page;
  for (int i = 1000; i < 1300; ++i) page.targets.push_back(target("t" + std::to_string(i)));
  page.targets.push_back(target("x", "bank"));
  (void)book_.take({"", page});
  EXPECT_EQ(book_.targets().size(), 257U);
  ASSERT_EQ(book_.refused().size(), 1U);
  EXPECT_EQ(book_.refused().begin()->first, "shop/t1256");
  EXPECT_THAT(book_.refused().begin()->second, HasSubstr("namespace shop has more than 256 of them"));
}

TEST_F(TargetBookTest, NoNamespaceTakesTheTextOfOthers) {
  TargetNews news{"", {}};
  for (int i = 0; i < 100; ++i) {
    LatencyTarget one{"shop", "t" + std::to_string(1000 + i), {}, {}};
    one.selector.assign(16, LabelRule{std::string(63, 'k'), LabelOperator::Exists, {}});
    news.list.targets.push_back(one);
  }
  news.list.targets.push_back({"bank", "db", {{"app", LabelOperator::Exists, {}}}, {}});
  TargetBook book;
  EXPECT_TRUE(book.take(std::move(news)));
  EXPECT_LT(book.text().size(), 200'000U);
  EXPECT_EQ(book.targets().front().full_name(), "bank/db");
  EXPECT_GT(book.targets().size(), 50U);
  EXPECT_LT(book.targets().size(), 80U);
  ASSERT_EQ(book.refused().size(), 1U);
  EXPECT_THAT(book.refused().begin()->second, HasSubstr("more than 65536 bytes"));
}

TEST_F(TargetBookTest, AFileKeepsItOverARestart) {
  LatencyTarget odd = target("a");
  odd.selector.push_back({"tier", LabelOperator::DoesNotExist, {}});
  (void)book_.take({"", {{odd, target("gone", "elsewhere")}, {{"shop/bad", "why"}, {"elsewhere/bad", "why"}}}});
  TargetBook next;
  ASSERT_TRUE(next.read(book_.text(), rules()));
  ASSERT_EQ(next.targets().size(), 1U) << "of namespaces that may ask";
  EXPECT_EQ(next.targets()[0], odd);
  EXPECT_EQ(next.refused(), (Labels{{"shop/bad", "why"}}));
  for (const char* text : {"", "{}", "[]", R"({"version":2,"targets":[],"refused":{}})",
                           R"({"version":1,"targets":[{"namespace":1}],"refused":{}})"}) {
    EXPECT_FALSE(TargetBook().read(text, rules())) << text;
  }
}

// The objects of golden/latency_targets.json, with a pod that they select.
std::string says(const json& sample) {
  const auto page = parse_targets(list({object(sample["spec"])}), rules());
  if (!page) return page.error().message;
  if (!page->refused.empty()) return page->refused.begin()->second;
  Pod pod;
  pod.name_space = "shop";
  pod.name = "web-0";
  pod.ip = "10.1.2.3";
  pod.containers = {{"app", "", 0}};
  const auto service = service_of(pod, page->targets.at(0), rules());
  return service ? "" : service.error().message;
}

TEST(LatencyTargetSamples, TheReaderTakesWhatIsGoodAndRefusesTheRest) {
  const auto text = read_text(fs::path(__FILE__).parent_path() / "golden/latency_targets.json");
  ASSERT_TRUE(text) << text.error().message;
  const json samples = json::parse(*text);
  ASSERT_GE(samples.size(), 30U);
  for (const auto& item : samples.items()) {
    const std::string why = says(item.value());
    EXPECT_EQ(why.empty(), item.value()["good"].get<bool>()) << item.key() << ": " << why;
  }
}

}  // namespace
}  // namespace osml
