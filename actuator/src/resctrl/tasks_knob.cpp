#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "cpu/members.h"
#include "resctrl/group.h"
#include "resctrl/knobs.h"

namespace osml::resctrl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto patience = std::chrono::seconds(1);
constexpr auto pause = std::chrono::milliseconds(2);
constexpr const char* nobody = "none";  // no thread to move: in the right group, whichever that is
constexpr const char* root_group = ".";

std::vector<pid_t> without(const std::vector<pid_t>& all, const std::vector<pid_t>& part) {
  std::vector<pid_t> rest;
  std::set_difference(all.begin(), all.end(), part.begin(), part.end(), std::back_inserter(rest));
  return rest;
}

std::vector<pid_t> common(const std::vector<pid_t>& a, const std::vector<pid_t>& b) {
  std::vector<pid_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

std::vector<pid_t> parse_tids(std::string_view text) {
  std::vector<pid_t> tids;
  while (!text.empty()) {
    pid_t tid = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), tid);
    if (code != std::errc{}) break;
    tids.push_back(tid);
    text.remove_prefix(std::min(text.size(), static_cast<std::size_t>(end - text.data()) + 1));
  }
  return tids;
}

// Thread -> its group then, from lines like "p1/mon_groups/m1=12,13"; "." is the root group. A parent lists the threads
// of its monitoring groups too and comes first, so the last line that names a thread is right.
std::map<pid_t, std::string> parse_origins(std::string_view text) {
  std::map<pid_t, std::string> origins;
  for (const std::string_view line : split_lines(text)) {
    const std::size_t equals = line.rfind('=');
    if (equals == std::string_view::npos) continue;
    for (const pid_t tid : parse_tids(line.substr(equals + 1))) origins[tid] = std::string(line.substr(0, equals));
  }
  return origins;
}

// Where threads go that were born since: where all threads of their process were, as far as is known; else the root
// group. `process_of` a thread that has ended is not known.
class Homes {
 public:
  Homes(const fs::path& proc, std::map<pid_t, std::string> origins) : proc_(proc), origins_(std::move(origins)) {
    for (const auto& [tid, group] : origins_) groups_of_process_[process_of(proc_, tid)].insert(group);
  }

  [[nodiscard]] bool knows(pid_t tid) const { return origins_.contains(tid); }
  [[nodiscard]] bool knows_process_of(pid_t tid) const { return groups_of_process_.contains(process_of(proc_, tid)); }
  [[nodiscard]] std::string of(pid_t tid) const {
    if (const auto own = origins_.find(tid); own != origins_.end()) return own->second;
    const auto others = groups_of_process_.find(process_of(proc_, tid));
    return others != groups_of_process_.end() && others->second.size() == 1 ? *others->second.begin() : root_group;
  }

 private:
  const fs::path& proc_;
  std::map<pid_t, std::string> origins_;
  std::map<pid_t, std::set<std::string>> groups_of_process_;
};

bool is_monitoring(const fs::path& group) { return group.parent_path().filename() == "mon_groups"; }

// The group of resources above a monitoring group.
fs::path above(const fs::path& group) { return group.parent_path().parent_path(); }

// A thread of a monitoring group is in its parent first: the kernel refuses to move it there from anywhere else.
Status move_back(const fs::path& root, const fs::path& group, const std::vector<pid_t>& tids) {
  if (is_monitoring(group)) {
    if (Status moved = move_tasks(root, above(group), tids); !moved) return moved;
  }
  return move_tasks(root, group, tids);
}

}  // namespace

Status TasksKnob::probe() {
  if (site_.info.allocates() || site_.info.monitor) return done();
  return Error{ErrorKind::Unsupported, site_.roots.resctrl.string() + " offers neither allocation nor monitoring", 0};
}

// Groups of the service's tasks are siblings of its own: that of another service, which shares it.
fs::path TasksKnob::sibling(const std::string& name) const { return site_.group.parent_path() / name; }

Result<bool> TasksKnob::all_in(const fs::path& group, const std::vector<pid_t>& members) {
  const auto inside = group_tasks(group);
  if (!inside && inside.error().kind == ErrorKind::Gone) return false;
  if (!inside) return inside.error();
  return without(members, *inside).empty();
}

Result<std::string> TasksKnob::read() {
  const auto members = member_tids(site_.roots, site_.match);
  if (!members) return members.error();
  if (members->empty()) return std::string(nobody);
  std::vector<fs::path> candidates{site_.group};
  const auto names = list_directory(site_.group.parent_path());
  for (const std::string& name : names ? *names : std::vector<std::string>{}) {
    if (name.starts_with(group_prefix) && sibling(name) != site_.group) candidates.push_back(sibling(name));
  }
  for (const fs::path& group : candidates) {
    const auto in = all_in(group, *members);
    if (!in) return in.error();
    if (*in) return group.filename().string();
  }
  return std::string();
}

bool TasksKnob::same(const std::string& read, const std::string& wanted) const {
  return read == nobody || read == wanted;
}

// Threads are born by threads that are not inside yet, so one pass is not enough; a thread born of one that is inside
// is inside itself, so this ends.
Status TasksKnob::write(const std::string& value) {
  const fs::path group = sibling(value);
  const auto deadline = Clock::now() + patience;
  std::vector<pid_t> before;
  while (true) {
    const auto members = member_tids(site_.roots, site_.match);
    if (!members) return members.error();
    const auto inside = group_tasks(group);
    if (!inside) return inside.error();
    const std::vector<pid_t> left = without(*members, *inside);
    if (left.empty()) return done();
    if (Status moved = move_tasks(site_.roots.resctrl, group, left); !moved) return moved;
    if (Clock::now() >= deadline) {
      return Error{ErrorKind::Busy,
                   std::to_string(left.size()) + " threads did not move into " + group.string() +
                       " within 1 s; the agent tries again in the next interval",
                   0};
    }
    if (left == before) std::this_thread::sleep_for(pause);
    before = left;
  }
}

Result<std::string> TasksKnob::groups_of_members(bool ours_too) {
  const auto members = member_tids(site_.roots, site_.match);
  if (!members) return members.error();
  std::map<std::string, std::vector<pid_t>> found;
  std::vector<pid_t> elsewhere;
  const auto groups = all_groups(site_.roots.resctrl);
  if (!groups) return groups.error();
  for (const fs::path& group : *groups) {
    if (!ours_too && is_ours(site_.roots.resctrl, group)) continue;
    const auto inside = group_tasks(group);
    if (!inside && inside.error().kind == ErrorKind::Gone) continue;  // removed by somebody meanwhile
    if (!inside) return inside.error();
    std::vector<pid_t> here = common(*members, *inside);
    if (here.empty()) continue;
    elsewhere.insert(elsewhere.end(), here.begin(), here.end());
    found[group.lexically_relative(site_.roots.resctrl).string()] = std::move(here);
  }
  std::sort(elsewhere.begin(), elsewhere.end());
  found[root_group] = without(*members, elsewhere);
  std::string text;
  for (const auto& [group, tids] : found) {
    if (tids.empty()) continue;
    std::string line = group + "=";
    for (const pid_t tid : tids) line += (line.back() == '=' ? "" : ",") + std::to_string(tid);
    text += line + "\n";
  }
  return text;
}

Result<std::string> TasksKnob::snapshot() { return groups_of_members(true); }

// What an earlier agent left in a group of ours was in no group before.
Result<std::string> TasksKnob::origin() { return groups_of_members(false); }

Result<std::map<pid_t, fs::path>> TasksKnob::present_groups() const {
  const auto groups = all_groups(site_.roots.resctrl);
  if (!groups) return groups.error();
  std::map<pid_t, fs::path> current;
  for (const fs::path& group : *groups) {
    const auto inside = group_tasks(group);
    if (!inside && inside.error().kind == ErrorKind::Gone) continue;
    if (!inside) return inside.error();
    for (const pid_t tid : *inside) current[tid] = group;  // a monitoring group comes behind its parent
  }
  return current;
}

// Threads in a group of ours go back. So do threads that are half-way: in the parent of their monitoring group, where
// the agent was killed between two moves, or in the root group because ours was removed and is there again. Others in
// an adopted group are not ours to move.
Status TasksKnob::restore(const std::string& snapshot) {
  const fs::path& root = site_.roots.resctrl;
  auto origins = parse_origins(snapshot);
  for (const auto& [tid, name] : origins) {
    if (!stays_below(name)) return Error{ErrorKind::Input, "journal: '" + name + "' is no group of resctrl", 0};
  }
  const Homes homes(site_.roots.proc, std::move(origins));
  const auto members = member_tids(site_.roots, site_.match);
  if (!members) return members.error();
  auto current = present_groups();
  if (!current) return current.error();
  for (const pid_t tid : *members) current->emplace(tid, root);
  std::map<fs::path, std::vector<pid_t>> back;
  for (const auto& [tid, group] : *current) {
    const bool member = std::binary_search(members->begin(), members->end(), tid);
    if (!member && !homes.knows(tid) && !homes.knows_process_of(tid)) continue;
    const std::string name = homes.of(tid);
    fs::path home = name == root_group ? root : root / name;
    const bool between_moves = is_monitoring(home) && group == above(home);
    const bool fell_out = is_ours(root, home) && group == root;
    const bool half_way = member && homes.knows(tid) && (between_moves || fell_out);
    if (group == home || !(is_ours(root, group) || half_way)) continue;
    const auto there = osml::present(home / "tasks");
    if (!there) return there.error();
    if (!*there && is_ours(root, home)) continue;  // the group comes back behind this, and then its threads
    if (!*there) home = root;
    back[home].push_back(tid);
  }
  for (const auto& [group, tids] : back) {
    if (Status moved = move_back(root, group, tids); !moved) return moved;
  }
  return done();
}

}  // namespace osml::resctrl
