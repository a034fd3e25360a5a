#include "client/server_words.h"

#include <nlohmann/json.hpp>

#include "base/printable.h"

namespace osml {

std::optional<std::string> server_message(const std::string& body) {
  using nlohmann::json;
  const json document = json::parse(body, nullptr, false);
  if (!document.is_object() || !document.contains("error") || !document["error"].is_object()) return std::nullopt;
  const json& error = document["error"];
  if (!error.contains("message") || !error["message"].is_string()) return std::nullopt;
  std::string text = error["message"].get<std::string>();
  if (error.contains("hint") && error["hint"].is_string()) text += " (" + error["hint"].get<std::string>() + ")";
  constexpr std::size_t longest = 500;
  return printable(text, longest);
}

}  // namespace osml
