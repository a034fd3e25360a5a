#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <map>
#include <thread>

#include "cpu/members.h"
#include "resctrl/group.h"
#include "resctrl/knobs.h"

namespace osml::resctrl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto patience = std::chrono::seconds(1);
constexpr auto pause = std::chrono::milliseconds(2);
constexpr const char* in = "in";

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

// Thread -> its group then, from lines like "p1/mon_groups/m1=12,13". A parent lists the threads of its monitoring
// groups too and comes first, so the last line that names a thread is right.
std::map<pid_t, std::string> parse_origins(std::string_view text) {
  std::map<pid_t, std::string> origins;
  for (const std::string_view line : split_lines(text)) {
    const std::size_t equals = line.rfind('=');
    if (equals == std::string_view::npos) continue;
    for (const pid_t tid : parse_tids(line.substr(equals + 1))) origins[tid] = std::string(line.substr(0, equals));
  }
  return origins;
}

// A thread of a monitoring group is in its parent first: the kernel refuses to move it there from anywhere else.
Status move_back(const fs::path& root, const fs::path& group, const std::vector<pid_t>& tids) {
  if (tids.empty() || !osml::exists(group / "tasks")) return done();
  const bool monitoring = group.parent_path().filename() == "mon_groups";
  if (monitoring) {
    if (Status moved = move_tasks(root, group.parent_path().parent_path(), tids); !moved) return moved;
  }
  return move_tasks(root, group, tids);
}

}  // namespace

Status TasksKnob::probe() {
  if (site_.info.allocates() || site_.info.monitor) return done();
  return Error{ErrorKind::Unsupported, site_.roots.resctrl.string() + " offers neither allocation nor monitoring", 0};
}

Result<std::vector<pid_t>> TasksKnob::outside() const {
  const auto members = member_tids(site_.roots, site_.match);
  if (!members) return members.error();
  const auto inside = group_tasks(site_.group);
  if (!inside) return inside.error();
  return without(*members, *inside);
}

Result<std::string> TasksKnob::read() {
  if (!osml::exists(site_.group / "tasks")) return std::string();
  const auto left = outside();
  if (!left) return left.error();
  return std::string(left->empty() ? in : "");
}

// Threads are born by threads that are not inside yet, so one pass is not enough; a thread born of one that is inside
// is inside itself, so this ends.
Status TasksKnob::write(const std::string& value) {
  if (value != in) return done();
  const auto deadline = Clock::now() + patience;
  std::vector<pid_t> before;
  while (true) {
    const auto left = outside();
    if (!left) return left.error();
    if (left->empty()) return done();
    if (Status moved = move_tasks(site_.roots.resctrl, site_.group, *left); !moved) return moved;
    if (Clock::now() >= deadline) {
      return Error{ErrorKind::Busy,
                   std::to_string(left->size()) + " threads did not move into " + site_.group.string() +
                       " within 1 s; the agent tries again in the next interval",
                   0};
    }
    if (*left == before) std::this_thread::sleep_for(pause);
    before = *left;
  }
}

Result<std::string> TasksKnob::snapshot() {
  const auto members = member_tids(site_.roots, site_.match);
  if (!members) return members.error();
  std::string text;
  for (const fs::path& group : all_groups(site_.roots.resctrl)) {
    const auto inside = group_tasks(group);
    if (!inside) continue;  // removed by somebody meanwhile
    const std::vector<pid_t> here = common(*members, *inside);
    if (here.empty()) continue;
    std::string line = fs::relative(group, site_.roots.resctrl).string() + "=";
    for (const pid_t tid : here) line += (line.back() == '=' ? "" : ",") + std::to_string(tid);
    text += line + "\n";
  }
  return text;
}

// Threads born since go where their process was. Others in an adopted group are not ours to move.
Status TasksKnob::restore(const std::string& snapshot) {
  if (!osml::exists(site_.group / "tasks")) return done();
  const auto inside = group_tasks(site_.group);
  if (!inside) return inside.error();
  const auto origins = parse_origins(snapshot);
  const auto members = member_tids(site_.roots, site_.match);
  const fs::path& root = site_.roots.resctrl;
  std::map<fs::path, std::vector<pid_t>> back;
  for (const pid_t tid : *inside) {
    auto origin = origins.find(tid);
    if (origin == origins.end()) origin = origins.find(process_of(site_.roots.proc, tid));
    if (origin != origins.end()) {
      back[osml::exists(root / origin->second / "tasks") ? root / origin->second : root].push_back(tid);
    } else if (members && std::binary_search(members->begin(), members->end(), tid)) {
      back[root].push_back(tid);
    }
  }
  for (const auto& [group, tids] : back) {
    if (group == site_.group) continue;
    if (Status moved = move_back(root, group, tids); !moved) return moved;
  }
  return done();
}

}  // namespace osml::resctrl
