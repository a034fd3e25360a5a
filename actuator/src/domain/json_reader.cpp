#include "domain/json_reader.h"

#include <algorithm>

namespace osml {

namespace {

using nlohmann::json;

// What an error shows of a value: enough to find it, never a megabyte, and never by walking down hostile nesting.
std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array())
    return "a list of " + std::to_string(value.size()) + (value.size() == 1 ? " entry" : " entries");
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  constexpr std::size_t longest = 60;
  if (text.size() > longest) text.erase(longest).append("...");
  return text;
}

const json& empty_list() {
  static const json list = json::array();
  return list;
}

const json& empty_object() {
  static const json object = json::object();
  return object;
}

}  // namespace

bool any_text(std::string_view /*text*/) { return true; }

JsonReader::JsonReader(const json& json, std::string where, std::optional<Error>& error)
    : json_(&json), where_(std::move(where)), error_(&error) {
  if (json.is_object()) return;
  fail(where_.empty() ? "the document" : where_, json, "an object");
  json_ = &empty_object();
}

std::string JsonReader::path(const char* key, std::size_t index) const {
  return path(key) + "[" + std::to_string(index) + "]";
}

void JsonReader::fail(const std::string& field, const json& value, const std::string& expected) {
  if (!failed()) *error_ = Error{ErrorKind::Input, field + ": " + shown(value) + ", expected " + expected};
}

void JsonReader::refuse_unknown(std::initializer_list<std::string_view> known) {
  for (const auto& item : json_->items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    if (!failed())
      *error_ = Error{ErrorKind::Input, path(item.key().c_str()) + ": unknown key; remove it, or update the agent"};
  }
}

const json* JsonReader::find(const char* key) const {
  const auto found = json_->find(key);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

const json* JsonReader::required(const char* key, const char* expected) {
  const json* value = find(key);
  if (value == nullptr && !failed()) {
    *error_ = Error{ErrorKind::Input, path(key) + ": missing, expected " + expected};
  }
  return value;
}

std::optional<std::string> JsonReader::optional_text(const char* key, Form form, const char* expected) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string() || !form(value->get_ref<const std::string&>())) {
    fail(path(key), *value, expected);
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::string JsonReader::text(const char* key, Form form, const char* expected) {
  if (required(key, expected) == nullptr) return {};
  return optional_text(key, form, expected).value_or("");
}

std::optional<std::uint64_t> JsonReader::optional_integer(const char* key, std::uint64_t min, std::uint64_t max) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned() && value->get<std::uint64_t>() >= min && value->get<std::uint64_t>() <= max) {
    return value->get<std::uint64_t>();
  }
  fail(path(key), *value, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  return std::nullopt;
}

std::uint64_t JsonReader::integer(const char* key, std::uint64_t min, std::uint64_t max) {
  if (required(key, "an integer") == nullptr) return min;
  return optional_integer(key, min, max).value_or(min);
}

std::optional<double> JsonReader::optional_positive(const char* key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  constexpr double largest = 1e12;  // keeps infinities and overflows out of later arithmetic
  if (value->is_number() && value->get<double>() > 0 && value->get<double>() <= largest) return value->get<double>();
  fail(path(key), *value, "a number above 0");
  return std::nullopt;
}

std::optional<bool> JsonReader::optional_boolean(const char* key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  fail(path(key), *value, "true or false");
  return std::nullopt;
}

const json* JsonReader::optional_list(const char* key, std::size_t max_size) {
  const json* value = find(key);
  if (value == nullptr) return nullptr;
  if (value->is_array() && value->size() <= max_size) return value;
  fail(path(key), *value, "a list of at most " + std::to_string(max_size) + " entries");
  return nullptr;
}

const json& JsonReader::list(const char* key, std::size_t max_size) {
  if (required(key, "a list") == nullptr) return empty_list();
  const json* value = optional_list(key, max_size);
  return value == nullptr ? empty_list() : *value;
}

const json* JsonReader::optional_object(const char* key) {
  const json* value = find(key);
  if (value == nullptr) return nullptr;
  if (value->is_object()) return value;
  fail(path(key), *value, "an object");
  return nullptr;
}

const json& JsonReader::object(const char* key) {
  if (required(key, "an object") == nullptr) return empty_object();
  const json* value = optional_object(key);
  return value == nullptr ? empty_object() : *value;
}

}  // namespace osml
