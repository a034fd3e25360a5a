// Reads one JSON object strictly: no coercions (true is no 1, 3.0 is no integer), every error names the path.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace osml {

// The first error wins; getters after it return defaults, so that a caller checks once at the end.
class JsonReader {
 public:
  using Form = bool (*)(std::string_view);

  JsonReader(const nlohmann::json& json, std::string where, std::optional<Error>& error);

  void refuse_unknown(std::initializer_list<std::string_view> known);
  // Required ones.
  std::string text(const char* key, Form form, const char* expected);
  std::uint64_t integer(const char* key, std::uint64_t min, std::uint64_t max);
  const nlohmann::json& list(const char* key, std::size_t max_size);
  const nlohmann::json& object(const char* key);
  // Absent and null are the same.
  std::optional<std::string> optional_text(const char* key, Form form, const char* expected);
  std::optional<std::uint64_t> optional_integer(const char* key, std::uint64_t min, std::uint64_t max);
  std::optional<double> optional_positive(const char* key);
  std::optional<bool> optional_boolean(const char* key);
  const nlohmann::json* optional_list(const char* key, std::size_t max_size);
  const nlohmann::json* optional_object(const char* key);

  [[nodiscard]] std::string path(const char* key) const { return where_.empty() ? key : where_ + "." + key; }
  [[nodiscard]] std::string path(const char* key, std::size_t index) const;
  void fail(const std::string& field, const nlohmann::json& value, const std::string& expected);
  [[nodiscard]] bool failed() const { return error_->has_value(); }
  std::optional<Error>& error() { return *error_; }

 private:
  const nlohmann::json* find(const char* key) const;
  const nlohmann::json* required(const char* key, const char* expected);

  const nlohmann::json* json_;
  std::string where_;
  std::optional<Error>* error_;
};

bool any_text(std::string_view text);

}  // namespace osml
