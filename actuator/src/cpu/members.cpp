#include "cpu/members.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <set>

namespace osml {

namespace {

using Pids = std::set<pid_t>;

// Controllers whose v1 hierarchy may hold a service; the first that has the path says who the members are.
constexpr std::array<const char*, 5> v1_controllers = {"cpuset", "cpu", "cpuacct", "memory", "pids"};

std::optional<pid_t> number(std::string_view text) {
  pid_t value = 0;
  text = trim(text);
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc{} || end != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

void add_lines(const fs::path& file, Pids& pids) {
  const auto text = read_text(file);
  if (!text) return;
  for (const std::string_view line : split_lines(*text)) {
    if (const auto pid = number(line)) pids.insert(*pid);
  }
}

void add_numbered(const fs::path& directory, Pids& pids) {
  const auto names = list_directory(directory);
  if (!names) return;
  for (const std::string& name : *names) {
    if (const auto pid = number(name)) pids.insert(*pid);
  }
}

bool leaves_root(const std::string& path) {
  const fs::path parts(path);
  return std::any_of(parts.begin(), parts.end(), [](const fs::path& part) { return part == ".."; });
}

fs::path below(const fs::path& root, const std::string& path) { return root / fs::path(path).relative_path(); }

fs::path member_directory(const Roots& roots, const std::string& path) {
  fs::path directory = cgroup2_directory(roots, path);
  for (const char* controller : v1_controllers) {
    if (!directory.empty()) break;
    directory = cgroup1_directory(roots, controller, path);
  }
  return directory;
}

// Workers that a listed process has started. The file needs CONFIG_PROC_CHILDREN; without it we have the process only.
void add_children(const fs::path& proc, pid_t pid, Pids& pids) {
  if (!osml::exists(proc / std::to_string(pid)) || !pids.insert(pid).second) return;
  Pids tids;
  add_numbered(proc / std::to_string(pid) / "task", tids);
  for (const pid_t tid : tids) {
    const auto text = read_text(proc / std::to_string(pid) / "task" / std::to_string(tid) / "children");
    if (!text) continue;
    for (std::string_view rest = *text; !rest.empty();) {
      const std::size_t blank = rest.find(' ');
      if (const auto child = number(rest.substr(0, blank))) add_children(proc, *child, pids);
      rest = blank == std::string_view::npos ? std::string_view{} : rest.substr(blank + 1);
    }
  }
}

Result<Pids> listed_pids(const Roots& roots, const Match& match) {
  Pids pids;
  for (const int pid : match.pids) add_children(roots.proc, pid, pids);
  if (match.pid_file) {
    const auto text = read_text(*match.pid_file);
    if (!text && text.error().code == ENOENT) return pids;  // not started
    if (!text) return text.error();
    const auto pid = number(*text);
    if (!pid) {
      return Error{ErrorKind::Io,
                   "pid_file " + match.pid_file->string() + " contains '" + *text + "', expected a process id", 0};
    }
    add_children(roots.proc, *pid, pids);
  }
  return pids;
}

}  // namespace

fs::path cgroup2_directory(const Roots& roots, const std::string& path) {
  const fs::path directory = below(roots.cgroup, path);
  // A v1 group has a "tasks" file; a plain directory of controllers has neither.
  const bool is_group = osml::exists(directory / "cgroup.procs") && !osml::exists(directory / "tasks");
  return is_group && !leaves_root(path) ? directory : fs::path();
}

fs::path cgroup1_directory(const Roots& roots, const std::string& controller, const std::string& path) {
  if (leaves_root(path)) return {};
  const auto hierarchies = list_directory(roots.cgroup);
  if (!hierarchies) return {};
  for (const std::string& name : *hierarchies) {
    const bool holds = ("," + name + ",").find("," + controller + ",") != std::string::npos;
    fs::path directory = below(roots.cgroup / name, path);
    if (holds && osml::exists(directory / "tasks")) return directory;
  }
  return {};
}

std::vector<fs::path> cgroup_tree(const fs::path& directory) {
  std::vector<fs::path> tree{directory};
  std::error_code code;
  for (fs::recursive_directory_iterator it(directory, code), last; !code && it != last; it.increment(code)) {
    std::error_code problem;
    if (it->is_directory(problem)) tree.push_back(it->path());
  }
  return tree;
}

Result<std::vector<pid_t>> member_pids(const Roots& roots, const Match& match) {
  Pids pids;
  if (match.cgroup) {
    const fs::path directory = member_directory(roots, *match.cgroup);
    if (directory.empty()) return std::vector<pid_t>{};
    for (const fs::path& group : cgroup_tree(directory)) add_lines(group / "cgroup.procs", pids);
  } else {
    const auto listed = listed_pids(roots, match);
    if (!listed) return listed.error();
    pids = *listed;
  }
  return std::vector<pid_t>(pids.begin(), pids.end());
}

Result<std::vector<pid_t>> member_tids(const Roots& roots, const Match& match) {
  const auto pids = member_pids(roots, match);
  if (!pids) return pids.error();
  Pids tids;
  for (const pid_t pid : *pids) add_numbered(roots.proc / std::to_string(pid) / "task", tids);
  if (match.cgroup && pids->empty()) {  // a threaded group does not list processes
    const fs::path directory = member_directory(roots, *match.cgroup);
    if (!directory.empty()) add_lines(directory / "cgroup.threads", tids);
  }
  return std::vector<pid_t>(tids.begin(), tids.end());
}

pid_t process_of(const fs::path& proc, pid_t tid) {
  const auto text = read_text(proc / std::to_string(tid) / "status");
  if (!text) return 0;
  for (const std::string_view line : split_lines(*text)) {
    if (line.starts_with("Tgid:")) return number(line.substr(5)).value_or(0);
  }
  return 0;
}

}  // namespace osml
