#include "locate/docker_finder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "locate/cgroup_search.h"

namespace osml {

namespace {

constexpr std::size_t id_digits = 64;
constexpr std::size_t least_digits = 12;  // as docker ps shows them

bool is_id(const std::string& text, std::size_t least) {
  return text.size() >= least && text.size() <= id_digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Directory names are ids; the file in it has the name, which begins with '/'. Empty where it cannot be read.
std::string name_of(const Roots& roots, const std::string& id) {
  const auto text = read_text(roots.docker / "containers" / id / "config.v2.json");
  const auto document = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  if (!document.is_object() || !document.contains("Name") || !document["Name"].is_string()) return {};
  const std::string name = document["Name"].get<std::string>();
  return name.starts_with('/') ? name.substr(1) : std::string();
}

std::string id_of(const Roots& roots, const std::string& name) {
  const auto ids = list_directory(roots.docker / "containers");
  if (!ids) return {};
  const auto found = std::find_if(ids->begin(), ids->end(), [&](const std::string& id) {
    return is_id(id, id_digits) && name_of(roots, id) == name;
  });
  return found == ids->end() ? std::string() : *found;
}

}  // namespace

Finding DockerFinder::find(const Roots& roots, const std::string& name_or_id) {
  const auto known = ids_.find(name_or_id);
  if (known != ids_.end()) {
    // A container may be renamed, and another one have its name.
    const std::string name = known->second.starts_with(name_or_id) ? std::string() : name_of(roots, known->second);
    const auto paths = find_docker(roots, known->second);
    if (paths.size() == 1 && (name.empty() || name == name_or_id)) return {paths.front(), "", ""};
    ids_.erase(known);
  }
  std::string id = id_of(roots, name_or_id);
  if (id.empty() && is_id(name_or_id, least_digits)) id = name_or_id;
  const auto paths = id.empty() ? std::vector<std::string>() : find_docker(roots, id);
  if (paths.empty()) return {"", "no container '" + name_or_id + "' of Docker runs", ""};
  if (paths.size() > 1) return {"", "several containers have an id that begins with " + name_or_id, ""};
  ids_[name_or_id] = id;
  return {paths.front(), "", ""};
}

}  // namespace osml
