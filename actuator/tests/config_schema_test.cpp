// The published schema (agent.schema.json) and the reader know the same keys and the same words. The reader lists what
// it knows in its messages, so it is asked by mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "config/config.h"

namespace osml {
namespace {

using nlohmann::json;
using Words = std::set<std::string>;

json schema() {
  const auto text = read_text(fs::path(__FILE__).parent_path().parent_path() / "agent.schema.json");
  return text ? json::parse(*text) : json();
}

std::string message_of(const json& document) {
  // JSON is YAML
  const auto config = parse_config(document.dump(), "a.yaml");
  return config ? "" : config.error().message;
}

json smallest() {
  return {{"node", "n"},
          {"server", {{"url", "http://h"}}},
          {"services",
           {{{"name", "s"},
             {"class", "lc"},
             {"target_ms", 1},
             {"match", {{"cgroup", "c"}}},
             {"latency", {{"file", "/t"}}}}}}};
}

// "a, b or c" to words.
Words words_in(std::string list) {
  for (std::size_t at = list.find(" or "); at != std::string::npos; at = list.find(" or ")) list.replace(at, 4, ", ");
  Words words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) {
    word.erase(0, word.find_first_not_of(' '));
    words.insert(word);
  }
  return words;
}

// The rest of the line of `message` that holds `start`.
std::string after(const std::string& message, const std::string& start) {
  const std::size_t at = message.find(start);
  if (at == std::string::npos) return "";
  const std::size_t from = at + start.size();
  return message.substr(from, message.find('\n', from) - from);
}

struct Section {
  std::string path;  // as messages name it
  json::json_pointer in_document;
  json properties;
};

// Every mapping of the schema with fixed keys.
void collect(const json& node, const std::string& path, const json::json_pointer& pointer,
             std::vector<Section>& sections) {
  if (node.contains("properties")) {
    sections.push_back({path, pointer, node["properties"]});
    for (const auto& [key, value] : node["properties"].items()) {
      collect(value, path.empty() ? key : path + "." + key, pointer / key, sections);
    }
  }
  if (node.contains("items")) collect(node["items"], path + "[0]", pointer / 0, sections);
}

std::vector<Section> sections() {
  std::vector<Section> found;
  collect(schema(), "", json::json_pointer(), found);
  return found;
}

TEST(ConfigSchema, HasTheReadersKeysAndNoOthers) {
  const auto all = sections();
  ASSERT_GE(all.size(), 13U);
  for (const Section& section : all) {
    json document = smallest();
    json& place = document[section.in_document];
    if (!place.is_object()) place = json::object();
    place["qqqqqqqq"] = 1;
    const std::string prefix = section.path.empty() ? "" : section.path + ".";
    const std::string known = after(message_of(document), prefix + "qqqqqqqq: unknown key; expected ");
    Words published;
    for (const auto& item : section.properties.items()) published.insert(item.key());
    EXPECT_EQ(words_in(known), published) << section.path << ": " << message_of(document);
    EXPECT_TRUE(section.path.empty() || !known.empty()) << section.path;
  }
}

TEST(ConfigSchema, HasTheReadersWordsAndNoOthers) {
  int checked = 0;
  for (const Section& section : sections()) {
    for (const auto& [key, value] : section.properties.items()) {
      if (!value.contains("enum")) continue;
      json document = smallest();
      json& place = document[section.in_document];
      if (!place.is_object()) place = json::object();
      place[key] = "qqqq";
      const std::string path = section.path.empty() ? key : section.path + "." + key;
      Words published;
      for (const json& word : value["enum"]) {
        if (word.is_string()) published.insert(word.get<std::string>());
      }
      EXPECT_EQ(words_in(after(message_of(document), path + ": 'qqqq', expected ")), published) << path;
      if (value.contains("default")) {
        EXPECT_TRUE(published.contains(value["default"].get<std::string>())) << path;
      }
      ++checked;
    }
  }
  EXPECT_GE(checked, 11);
}

TEST(ConfigSchema, EveryKeyIsDescribed) {
  for (const Section& section : sections()) {
    for (const auto& [key, value] : section.properties.items()) {
      EXPECT_TRUE(value.contains("description")) << section.path << " " << key;
    }
  }
}

// Its numbers are the reader's: just inside is taken, just outside is not.
TEST(ConfigSchema, HasTheReadersRanges) {
  int checked = 0;
  for (const Section& section : sections()) {
    if (section.path.starts_with("services[0].limits")) continue;  // whole numbers, compared with each other too
    for (const auto& [key, value] : section.properties.items()) {
      if (!value.contains("type") || !value["type"].is_array() || value["type"][0] != "number") continue;
      const std::string path = section.path.empty() ? key : section.path + "." + key;
      const auto complaint = [&](double number) {
        json document = smallest();
        json& place = document[section.in_document];
        if (!place.is_object()) place = json::object();
        place[key] = number;
        return after(message_of(document), path + ": ");
      };
      const bool open = value.contains("exclusiveMinimum");
      const double least = open ? value["exclusiveMinimum"].get<double>() : value["minimum"].get<double>();
      const double most = value["maximum"].get<double>();
      EXPECT_NE(complaint(most * 1.01), "") << path;
      EXPECT_NE(complaint(open ? least : least - 0.001), "") << path;
      // how far the scale may go hangs on the interval
      if (key != "time_scale") {
        EXPECT_EQ(complaint(most), "") << path;
      }
      if (!open) {
        EXPECT_EQ(complaint(least), "") << path;
      }
      ++checked;
    }
  }
  EXPECT_GE(checked, 11);
}

}  // namespace
}  // namespace osml
