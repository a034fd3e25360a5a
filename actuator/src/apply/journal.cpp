#include "apply/journal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>

#include "domain/forms.h"

namespace osml {

namespace {

using Json = nlohmann::json;

constexpr int version = 2;
constexpr int former_version = 1;  // without inodes, boot id and what was applied
// Of our own, and nothing can be restored without it: far more than any node needs.
constexpr std::size_t longest_journal = std::size_t{64} << 20U;

std::optional<Aspect> aspect_named(const std::string& name) {
  const auto* const found =
      std::find_if(aspects.begin(), aspects.end(), [&](Aspect aspect) { return name_of(aspect) == name; });
  return found == aspects.end() ? std::nullopt : std::optional(*found);
}

Json to_json(const Match& match) {
  if (match.cgroup && match.found_by.empty()) return {{"cgroup", *match.cgroup}};
  if (match.cgroup) return {{"cgroup", *match.cgroup}, {"found_by", match.found_by}};
  if (match.pid_file) return {{"pid_file", match.pid_file->string()}};
  return {{"pids", match.pids}};
}

Json to_json(const Roots& roots) {
  return {{"resctrl", roots.resctrl.string()}, {"cgroup", roots.cgroup.string()}, {"proc", roots.proc.string()},
          {"sysfs", roots.sysfs.string()},     {"irq", roots.irq.string()},       {"disks", roots.disks}};
}

Json to_json(const std::vector<Saved>& list) {
  Json array = Json::array();
  for (const Saved& saved : list) {
    array.push_back({{"service", saved.name.service},
                     {"knob", name_of(saved.name.aspect)},
                     {"backend", saved.name.backend},
                     {"match", to_json(saved.name.match)},
                     {"snapshot", saved.snapshot}});
    if (saved.name.cgroup_inode) array.back()["cgroup_inode"] = *saved.name.cgroup_inode;
  }
  return array;
}

Json to_json(const std::vector<Applied>& list) {
  Json array = Json::array();
  for (const Applied& applied : list) {
    Json values = Json::object();
    for (const auto& [aspect, value] : applied.values) values[std::string(name_of(aspect))] = value;
    array.push_back({{"service", applied.service},
                     {"match", to_json(applied.match)},
                     {"there", applied.there},
                     {"values", values}});
    if (applied.cgroup_inode) array.back()["cgroup_inode"] = *applied.cgroup_inode;
    if (applied.job) array.back()["job"] = true;
  }
  return array;
}

// The functions below throw nlohmann's exceptions where a key is missing, of another type or no sense; load_journal
// catches them.
Json::other_error nonsense(const std::string& what, const Json& json) {
  return Json::other_error::create(0, what, &json);
}

std::string service_of(const Json& json) {
  std::string service = json.at("service").get<std::string>();
  if (!is_name(service) && !is_machine_part(service))
    throw nonsense("no name of a service: " + json.at("service").dump(), json);
  return service;
}

// Whoever could write the journal must not name files outside of the cgroup tree.
Match match_of(const Json& json) {
  Match match;
  // An older agent wrote the path as the configuration had it.
  if (json.contains("cgroup")) match.cgroup = plain_path(json.at("cgroup").get<std::string>());
  if (match.cgroup && !stays_below(*match.cgroup)) throw nonsense("no path below the cgroup root", json);
  if (json.contains("found_by")) match.found_by = json.at("found_by").get<std::string>();
  if (json.contains("pid_file")) match.pid_file = json.at("pid_file").get<std::string>();
  if (json.contains("pids")) match.pids = json.at("pids").get<std::vector<int>>();
  return match;
}

Roots roots_of(const Json& json) {
  Roots roots = {json.at("resctrl").get<std::string>(), json.at("cgroup").get<std::string>(),
                 json.at("proc").get<std::string>(), json.at("sysfs").get<std::string>()};
  if (json.contains("disks"))
    roots.disks = json.at("disks").get<std::vector<std::string>>();  // an older journal has none
  roots.irq = json.value("irq", "");
  return roots;
}

Aspect aspect_of(const std::string& name, const Json& json) {
  const auto aspect = aspect_named(name);
  if (!aspect) throw nonsense("unknown knob " + name, json);
  return *aspect;
}

std::optional<std::uint64_t> inode_of(const Json& json) {
  return json.contains("cgroup_inode") ? std::optional(json.at("cgroup_inode").get<std::uint64_t>()) : std::nullopt;
}

Applied applied_of(const Json& json) {
  Applied applied{service_of(json),        match_of(json.at("match")), json.at("there").get<bool>(), inode_of(json), {},
                  json.value("job", false)};
  for (const auto& value : json.at("values").items()) {
    applied.values[aspect_of(value.key(), json)] = value.value().get<std::string>();
  }
  return applied;
}

Saved saved_of(const Json& json) {
  return {{service_of(json), aspect_of(json.at("knob").get<std::string>(), json), json.at("backend").get<std::string>(),
           match_of(json.at("match")), inode_of(json)},
          json.at("snapshot").get<std::string>()};
}

template <class T>
std::vector<T> list_of(const Json& json, T (*read)(const Json&)) {
  std::vector<T> list;
  for (const Json& entry : json) list.push_back(read(entry));
  return list;
}

Error broken(const fs::path& path, const std::string& why) {
  return {
      ErrorKind::Input,
      "journal " + path.string() + " cannot be read (" + why + "); restore the machine by hand, then delete the file",
      0};
}

}  // namespace

const Saved* Journal::find(const KnobName& name) const {
  const auto found =
      std::find_if(originals.begin(), originals.end(), [&](const Saved& saved) { return same_knob(saved.name, name); });
  return found == originals.end() ? nullptr : &*found;
}

const Applied* Journal::applied_to(const std::string& service) const {
  const auto found =
      std::find_if(applied.begin(), applied.end(), [&](const Applied& one) { return one.service == service; });
  return found == applied.end() ? nullptr : &*found;
}

Result<Journal> load_journal(const fs::path& path) {
  const auto text = read_text(path, longest_journal);
  if (!text && text.error().code == ENOENT) return Journal{};
  if (!text) return text.error();
  try {
    const Json json = Json::parse(*text);
    const int written = json.at("version").get<int>();
    if (written != version && written != former_version) return broken(path, "another version of the format");
    Journal journal{list_of(json.at("originals"), saved_of), list_of(json.at("pending"), saved_of), {}, {}};
    if (written == former_version) return journal;
    journal.applied = list_of(json.at("applied"), applied_of);
    journal.boot_id = json.at("boot_id").get<std::string>();
    journal.leave = json.value("leave", false);
    if (json.contains("roots")) journal.roots = roots_of(json.at("roots"));
    return journal;
  } catch (const Json::exception& problem) {
    return broken(path, problem.what());
  }
}

Status save_journal(const fs::path& path, const Journal& journal) {
  Json json = {{"version", version},
               {"boot_id", journal.boot_id},
               {"leave", journal.leave},
               {"originals", to_json(journal.originals)},
               {"pending", to_json(journal.pending)},
               {"applied", to_json(journal.applied)}};
  // Paths of cgroups may hold any byte; a replacement character is better than no journal.
  if (journal.roots) json["roots"] = to_json(*journal.roots);
  return write_atomically(path, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace osml
