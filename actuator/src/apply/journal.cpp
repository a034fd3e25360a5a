#include "apply/journal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>

namespace osml {

namespace {

using Json = nlohmann::json;

constexpr int version = 1;

std::optional<Aspect> aspect_named(const std::string& name) {
  const auto* const found =
      std::find_if(aspects.begin(), aspects.end(), [&](Aspect aspect) { return name_of(aspect) == name; });
  return found == aspects.end() ? std::nullopt : std::optional(*found);
}

Json to_json(const Match& match) {
  if (match.cgroup) return {{"cgroup", *match.cgroup}};
  if (match.pid_file) return {{"pid_file", match.pid_file->string()}};
  return {{"pids", match.pids}};
}

Json to_json(const std::vector<Saved>& list) {
  Json array = Json::array();
  for (const Saved& saved : list) {
    array.push_back({{"service", saved.name.service},
                     {"knob", name_of(saved.name.aspect)},
                     {"backend", saved.name.backend},
                     {"match", to_json(saved.name.match)},
                     {"snapshot", saved.snapshot}});
  }
  return array;
}

// Throws nlohmann's exceptions where a key is missing or of another type; load_journal catches them.
Saved saved_of(const Json& json) {
  Saved saved;
  saved.name.service = json.at("service").get<std::string>();
  const auto aspect = aspect_named(json.at("knob").get<std::string>());
  if (!aspect) throw Json::other_error::create(0, "unknown knob " + json.at("knob").dump(), &json);
  saved.name.aspect = *aspect;
  saved.name.backend = json.at("backend").get<std::string>();
  const Json& match = json.at("match");
  if (match.contains("cgroup")) saved.name.match.cgroup = match.at("cgroup").get<std::string>();
  if (match.contains("pid_file")) saved.name.match.pid_file = match.at("pid_file").get<std::string>();
  if (match.contains("pids")) saved.name.match.pids = match.at("pids").get<std::vector<int>>();
  saved.snapshot = json.at("snapshot").get<std::string>();
  return saved;
}

std::vector<Saved> list_of(const Json& json) {
  std::vector<Saved> list;
  for (const Json& entry : json) list.push_back(saved_of(entry));
  return list;
}

Error broken(const fs::path& path, const std::string& why) {
  return {
      ErrorKind::Input,
      "journal " + path.string() + " cannot be read (" + why + "); restore the machine by hand, then delete the file",
      0};
}

}  // namespace

bool Journal::knows(const std::string& service, Aspect aspect) const {
  return std::any_of(originals.begin(), originals.end(),
                     [&](const Saved& saved) { return saved.name.service == service && saved.name.aspect == aspect; });
}

Result<Journal> load_journal(const fs::path& path) {
  const auto text = read_text(path);
  if (!text && text.error().code == ENOENT) return Journal{};
  if (!text) return text.error();
  try {
    const Json json = Json::parse(*text);
    if (json.at("version").get<int>() != version) return broken(path, "another version of the format");
    return Journal{list_of(json.at("originals")), list_of(json.at("pending"))};
  } catch (const Json::exception& problem) {
    return broken(path, problem.what());
  }
}

Status save_journal(const fs::path& path, const Journal& journal) {
  const Json json = {
      {"version", version}, {"originals", to_json(journal.originals)}, {"pending", to_json(journal.pending)}};
  // Paths of cgroups may hold any byte; a replacement character is better than no journal.
  return write_atomically(path, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace osml
