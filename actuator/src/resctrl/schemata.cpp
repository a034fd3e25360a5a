#include "resctrl/schemata.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "base/mask.h"
#include "base/number.h"

namespace osml::resctrl {

namespace {

constexpr auto whole_patience = std::chrono::seconds(1);
constexpr auto whole_pause = std::chrono::milliseconds(2);

Error bad_line(std::string_view line) {
  return {ErrorKind::Io, "schemata line '" + std::string(line) + "' is not of the form NAME:ID=VALUE;...", 0};
}

Result<SchemataLine> parse_line(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return bad_line(text);
  SchemataLine line{std::string(trim(text.substr(0, colon))), {}};
  std::string_view rest = trim(text.substr(colon + 1));
  while (!rest.empty()) {
    const std::size_t semicolon = rest.find(';');
    const std::string_view part = rest.substr(0, semicolon);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return bad_line(text);
    const auto id = parse_unsigned(trim(part.substr(0, equals)));
    const auto value = parse_unsigned(trim(part.substr(equals + 1)), is_cache(line.resource) ? 16 : 10);
    if (!id || *id > std::numeric_limits<unsigned>::max() || !value) return bad_line(text);
    line.values[static_cast<unsigned>(*id)] = *value;
    rest = semicolon == std::string_view::npos ? std::string_view{} : rest.substr(semicolon + 1);
  }
  if (line.resource.empty() || line.values.empty()) return bad_line(text);
  return line;
}

bool is_whole(const Schemata& schemata, const std::vector<std::string>& resources) {
  return std::all_of(resources.begin(), resources.end(),
                     [&](const std::string& name) { return find_line(schemata, name) != nullptr; });
}

}  // namespace

bool is_cache(std::string_view resource) { return resource.starts_with('L'); }

Result<Schemata> parse_schemata(std::string_view text) {
  Schemata schemata;
  for (const std::string_view line : split_lines(text)) {
    if (trim(line).empty()) continue;
    auto parsed = parse_line(line);
    if (!parsed) return parsed.error();
    schemata.push_back(std::move(*parsed));
  }
  return schemata;
}

std::string format_line(const SchemataLine& line) {
  std::string text = line.resource + ":";
  for (const auto& [id, value] : line.values) {
    if (text.back() != ':') text += ';';
    text += std::to_string(id) + "=" + (is_cache(line.resource) ? format_mask(value) : std::to_string(value));
  }
  return text;
}

const SchemataLine* find_line(const Schemata& schemata, std::string_view resource) {
  const auto found = std::find_if(schemata.begin(), schemata.end(),
                                  [&](const SchemataLine& line) { return line.resource == resource; });
  return found == schemata.end() ? nullptr : &*found;
}

Result<Schemata> read_schemata(const fs::path& group, const std::vector<std::string>& whole) {
  const auto deadline = std::chrono::steady_clock::now() + whole_patience;
  while (true) {
    auto text = read_text(group / "schemata");
    if (!text) return text.error();
    auto schemata = parse_schemata(*text);
    if (schemata && is_whole(*schemata, whole)) return schemata;
    if (std::chrono::steady_clock::now() >= deadline) {
      if (!schemata) return schemata.error().wrap((group / "schemata").string());
      return Error{ErrorKind::Io, (group / "schemata").string() + " lacks a resource that the root group has", 0};
    }
    std::this_thread::sleep_for(whole_pause);
  }
}

}  // namespace osml::resctrl
