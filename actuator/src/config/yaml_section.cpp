#include "config/yaml_section.h"

#include <algorithm>
#include <charconv>

#include "config/nearest.h"

namespace osml {

namespace {

std::string joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::string shown(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  return node.IsScalar() ? "'" + node.Scalar() + "'" : "null";
}

template <class T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

void Problems::add(const YAML::Mark& mark, const std::string& message) {
  lines_.push_back({std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1, message});
}

std::string Problems::text() const {
  std::vector<Line> ordered = lines_;
  std::stable_sort(ordered.begin(), ordered.end(), [](const Line& a, const Line& b) { return a.line < b.line; });
  std::string text;
  for (const Line& line : ordered) {
    if (!text.empty()) text += "\n";
    text += file_ + ":" + std::to_string(line.line) + ":" + std::to_string(line.column) + ": " + line.message;
  }
  return text;
}

YamlSection::YamlSection(const YAML::Node& node, std::string path, Problems& problems,
                         std::vector<std::string_view> known)
    : node_(node), path_(std::move(path)), problems_(&problems) {
  if (node.IsDefined() && node.IsMap()) {
    check_keys(known);
    return;
  }
  if (node.IsDefined() && !node.IsNull()) {
    problems.add(node.Mark(), (path_.empty() ? "the file" : path_) + ": " + shown(node) + ", expected keys such as " +
                                  std::string(known.front()) + ": ...");
  }
  node_.reset(YAML::Node(YAML::NodeType::Map));
}

void YamlSection::check_keys(const std::vector<std::string_view>& known) {
  std::set<std::string> seen;
  for (const auto& item : node_) {
    const std::string name = item.first.IsScalar() ? item.first.Scalar() : shown(item.first);
    const std::string where = path(name.c_str());
    if (!seen.insert(name).second) problems_->add(item.first.Mark(), where + ": given twice, expected once");
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const auto near = nearest(name, known);
    if (near) misspelt_.emplace(*near);
    problems_->add(item.first.Mark(),
                   where + ": unknown key; " +
                       (near ? "did you mean '" + std::string(*near) + "'?" : "expected " + joined(known)));
  }
}

YAML::Node YamlSection::child(const char* key) {
  // operator[] of a const node neither inserts nor throws
  const YAML::Node& section = node_;
  YAML::Node found = section[key];
  return found.IsDefined() && !found.IsNull() ? found : YAML::Node(YAML::NodeType::Undefined);
}

YAML::Mark YamlSection::mark_of(const char* key) {
  const YAML::Node node = child(key);
  return node.IsDefined() ? node.Mark() : node_.Mark();
}

void YamlSection::problem(const char* key, const std::string& message) {
  problems_->add(mark_of(key), path(key) + ": " + message);
}

void YamlSection::wrong(const char* key, const std::string& expected) {
  problem(key, shown(child(key)) + ", expected " + expected);
}

void YamlSection::missing(const char* key, const std::string& expected) {
  // One mistake, one sentence: the misspelt key is reported, with this one as what was meant.
  if (!misspelt_.contains(key)) problem(key, "missing, expected " + expected);
}

std::optional<std::string> YamlSection::scalar(const char* key, const std::string& expected) {
  const YAML::Node node = child(key);
  if (!node.IsDefined()) return std::nullopt;
  if (node.IsScalar() && !node.Scalar().empty()) return node.Scalar();
  wrong(key, expected);
  return std::nullopt;
}

std::optional<std::string> YamlSection::text(const char* key) { return scalar(key, "text"); }

std::optional<std::string> YamlSection::choice(const char* key, const std::vector<std::string_view>& allowed) {
  const auto is_allowed = [&](std::string_view one) { return std::ranges::find(allowed, one) != allowed.end(); };
  auto text = scalar(key, joined(allowed));
  if (!text || is_allowed(*text)) return text;
  // Tools that read YAML 1.1, such as Helm, take a plain `on` for true and write that.
  if (*text == "true" && is_allowed("on")) return "on";
  if (*text == "false" && is_allowed("off")) return "off";
  wrong(key, joined(allowed));
  return std::nullopt;
}

std::optional<double> YamlSection::number(const char* key, const NumberRange& range) {
  const auto text = scalar(key, range.expected);
  if (!text) return std::nullopt;
  const auto value = parse_number<double>(*text);
  // written so that NaN fails
  if (value && *value >= range.min && *value <= range.max && !(range.above_min && *value == range.min)) return value;
  wrong(key, range.expected);
  return std::nullopt;
}

std::optional<unsigned> YamlSection::count(const char* key, unsigned min, unsigned max) {
  const std::string expected = "a whole number from " + std::to_string(min) + " to " + std::to_string(max);
  const auto text = scalar(key, expected);
  if (!text) return std::nullopt;
  const auto value = parse_number<unsigned>(*text);
  if (value && *value >= min && *value <= max) return value;
  wrong(key, expected);
  return std::nullopt;
}

std::optional<fs::path> YamlSection::file(const char* key, const fs::path& relative_to) {
  const auto text = scalar(key, "a path");
  if (!text) return std::nullopt;
  const fs::path path(*text);
  return path.is_absolute() ? path : relative_to / path;
}

}  // namespace osml
