// One mapping of the YAML file, read strictly. Mistakes are collected, not thrown: the operator sees all of them at
// once.
#pragma once

#include <yaml-cpp/yaml.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace osml {

// Mistakes of one file, each with its place.
class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}
  void add(const YAML::Mark& mark, const std::string& message);
  [[nodiscard]] bool empty() const { return lines_.empty(); }
  // "file:line:column: message", one a line, in the order of the file.
  [[nodiscard]] std::string text() const;

 private:
  struct Line {
    int line;
    int column;
    std::string message;
  };
  std::string file_;
  std::vector<Line> lines_;
};

struct NumberRange {
  double min;
  double max;
  bool above_min;  // min itself is not allowed
  const char* expected;
};

// Getters return none where the key is absent, null or wrong; the wrong ones were added to the problems.
class YamlSection {
 public:
  YamlSection(const YAML::Node& node, std::string path, Problems& problems, std::vector<std::string_view> known);

  std::optional<std::string> text(const char* key);
  std::optional<std::string> choice(const char* key, const std::vector<std::string_view>& allowed);
  std::optional<double> number(const char* key, const NumberRange& range);
  std::optional<unsigned> count(const char* key, unsigned min, unsigned max = 65536);
  std::optional<fs::path> file(const char* key, const fs::path& relative_to);
  // The node below, undefined where absent or null.
  YAML::Node child(const char* key);

  [[nodiscard]] bool has(const char* key) { return child(key).IsDefined(); }
  [[nodiscard]] std::string path(const char* key) const { return path_.empty() ? key : path_ + "." + key; }
  // `value` as written, what was expected, at the place of the key (of the section where the key is absent).
  void wrong(const char* key, const std::string& expected);
  void missing(const char* key, const std::string& expected);
  void problem(const char* key, const std::string& message);
  Problems& problems() { return *problems_; }

 private:
  [[nodiscard]] YAML::Mark mark_of(const char* key);
  std::optional<std::string> scalar(const char* key, const std::string& expected);
  void check_keys(const std::vector<std::string_view>& known);

  YAML::Node node_;
  std::set<std::string> misspelt_;  // keys that were meant by unknown ones
  std::string path_;
  Problems* problems_;
};

}  // namespace osml
