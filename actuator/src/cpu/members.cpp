#include "cpu/members.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <optional>
#include <set>

#include "base/number.h"
#include "base/untrusted_file.h"
#include "cpu/threads.h"

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

// What has gone meanwhile has no members; a threaded group lists no processes (EOPNOTSUPP).
bool has_none(const Error& error) {
  return error.kind == ErrorKind::Gone || error.code == ENOTDIR || error.kind == ErrorKind::Unsupported;
}

Status add_lines(const fs::path& file, Pids& pids) {
  const auto text = read_text(file);
  if (!text) return has_none(text.error()) ? done() : Status(text.error());
  for (const std::string_view line : split_lines(*text)) {
    if (const auto pid = number(line)) pids.insert(*pid);
  }
  return done();
}

Status add_numbered(const fs::path& directory, Pids& pids) {
  const auto names = list_directory(directory);
  if (!names) return has_none(names.error()) ? done() : Status(names.error());
  for (const std::string& name : *names) {
    if (const auto pid = number(name)) pids.insert(*pid);
  }
  return done();
}

bool leaves_root(const std::string& path) { return !stays_below(fs::path(path).relative_path()); }

// Without a slash or "." at its end, which would make the directory its own parent.
fs::path below(const fs::path& root, const std::string& path) {
  const fs::path plain = fs::path(path).relative_path().lexically_normal();
  return root / (plain.has_filename() ? plain : plain.parent_path());
}

// Workers that a listed process has started. The file needs CONFIG_PROC_CHILDREN; without it we have the process only.
void add_children(const fs::path& proc, pid_t pid, Pids& pids) {
  if (!osml::exists(proc / std::to_string(pid)) || !pids.insert(pid).second) return;
  Pids tids;
  (void)add_numbered(proc / std::to_string(pid) / "task", tids);
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

// Real user of a process; none where it has gone.
std::optional<uid_t> user_of(const fs::path& proc, pid_t pid) {
  const auto text = read_text(proc / std::to_string(pid) / "status");
  if (!text) return std::nullopt;
  for (const std::string_view line : split_lines(*text)) {
    if (!line.starts_with("Uid:")) continue;
    const std::string_view first = trim(line.substr(4));
    const auto uid = parse_unsigned(first.substr(0, first.find_first_of(" \t")));
    if (uid) return static_cast<uid_t>(*uid);
  }
  return std::nullopt;
}

double seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Whether the process cannot be the one that the file was written for: it started later, under a number that has come
// up again. The kernel counts its start from the boot, suspended time included.
bool started_after(const fs::path& proc, pid_t pid, const timespec& written) {
  constexpr double slack_s = 60;  // the wall clock may have been set meanwhile
  const auto ticks = is_kernel_proc(proc) ? parse_double(thread_start_time(proc, pid)) : std::nullopt;
  if (!ticks) return false;
  const double age_s = seconds(CLOCK_BOOTTIME) - *ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return seconds(CLOCK_REALTIME) - age_s > static_cast<double>(written.tv_sec) + slack_s;
}

// What a service writes must not name the tasks of others: the file is of root or of the process's user, and never
// names init or the agent. Nothing of the text goes into a message: it may be any file that only root can read.
Result<std::optional<pid_t>> pid_of_file(const Roots& roots, const fs::path& path) {
  constexpr std::size_t longest = 32;
  const auto read = read_untrusted(path, longest);
  if (!read && read.error().code == ENOENT) return std::optional<pid_t>();  // not started
  if (!read) return read.error().wrap("pid_file");
  const auto refused = [&](const char* why) {
    return Error{ErrorKind::Permission, "pid_file " + path.string() + why, 0};
  };
  const auto pid = number(read->text);
  if (!pid) return refused(" contains no process id, expected one");
  if (*pid == 1) return refused(" names process 1, expected a process of the service");
  if (roots.proc == "/proc" && *pid == ::getpid())
    return refused(" names the agent, expected a process of the service");
  const bool trusted = read->owner == 0 || read->owner == ::geteuid();
  const auto user = user_of(roots.proc, *pid);
  if (!trusted && user && *user != read->owner) {
    return refused(" belongs to another user than the process that it names; let root or that user write it");
  }
  if (started_after(roots.proc, *pid, read->written)) return std::optional<pid_t>();  // the service has ended
  return trusted || user ? pid : std::nullopt;
}

Result<Pids> listed_pids(const Roots& roots, const Match& match) {
  Pids pids;
  for (const int pid : match.pids) add_children(roots.proc, pid, pids);
  if (match.pid_file) {
    const auto pid = pid_of_file(roots, *match.pid_file);
    if (!pid) return pid.error();
    if (*pid) add_children(roots.proc, **pid, pids);
  }
  return pids;
}

}  // namespace

fs::path cgroup2_directory(const Roots& roots, const std::string& path) {
  const auto found = find_cgroup2(roots, path);
  return found ? *found : fs::path();
}

fs::path cgroup1_directory(const Roots& roots, const std::string& controller, const std::string& path) {
  const auto found = find_cgroup1(roots, controller, path);
  return found ? *found : fs::path();
}

Result<fs::path> find_cgroup2(const Roots& roots, const std::string& path) {
  if (leaves_root(path)) return fs::path();
  const fs::path directory = below(roots.cgroup, path);
  const auto procs = present(directory / "cgroup.procs");
  if (!procs) return procs.error();
  // A v1 group has a "tasks" file; a plain directory of controllers has neither.
  const auto tasks = *procs ? present(directory / "tasks") : Result<bool>(false);
  if (!tasks) return tasks.error();
  return *procs && !*tasks ? directory : fs::path();
}

Result<fs::path> find_cgroup1(const Roots& roots, const std::string& controller, const std::string& path) {
  if (leaves_root(path)) return fs::path();
  const auto hierarchies = list_directory(roots.cgroup);
  if (!hierarchies)
    return hierarchies.error().kind == ErrorKind::Gone ? Result<fs::path>(fs::path()) : hierarchies.error();
  for (const std::string& name : *hierarchies) {
    if (("," + name + ",").find("," + controller + ",") == std::string::npos) continue;
    fs::path directory = below(roots.cgroup / name, path);
    const auto tasks = present(directory / "tasks");
    if (!tasks) return tasks.error();
    if (*tasks) return directory;
  }
  return fs::path();
}

Result<fs::path> member_directory(const Roots& roots, const std::string& path) {
  auto directory = find_cgroup2(roots, path);
  for (const char* controller : v1_controllers) {
    if (!directory || !directory->empty()) break;
    directory = find_cgroup1(roots, controller, path);
  }
  return directory;
}

Result<std::optional<std::uint64_t>> cgroup_inode(const Roots& roots, const std::string& path) {
  const auto directory = member_directory(roots, path);
  if (!directory) return directory.error();
  struct stat facts {};
  struct statfs system {};
  if (directory->empty() || ::stat(directory->c_str(), &facts) != 0 || ::statfs(directory->c_str(), &system) != 0 ||
      system.f_type == FUSE_SUPER_MAGIC) {
    return std::optional<std::uint64_t>();
  }
  return std::optional<std::uint64_t>(facts.st_ino);
}

Result<std::vector<fs::path>> cgroup_tree(const fs::path& directory, const ListDirectories& list) {
  std::vector<fs::path> tree{directory};
  for (std::size_t next = 0; next < tree.size(); ++next) {
    const auto names = list(tree[next]);
    if (!names && !has_none(names.error())) return names.error();
    if (!names) continue;
    const fs::path parent = tree[next];
    for (const std::string& name : *names) tree.push_back(parent / name);
  }
  return tree;
}

Result<std::vector<pid_t>> member_pids(const Roots& roots, const Match& match) {
  Pids pids;
  if (match.cgroup) {
    const auto directory = member_directory(roots, *match.cgroup);
    if (!directory) return directory.error();
    if (directory->empty()) return std::vector<pid_t>{};
    const auto tree = cgroup_tree(*directory);
    if (!tree) return tree.error();
    for (const fs::path& group : *tree) {
      if (Status added = add_lines(group / "cgroup.procs", pids); !added) return added.error();
    }
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
  for (const pid_t pid : *pids) {
    if (Status added = add_numbered(roots.proc / std::to_string(pid) / "task", tids); !added) return added.error();
  }
  if (match.cgroup && pids->empty()) {  // a threaded group does not list processes
    const auto directory = member_directory(roots, *match.cgroup);
    if (!directory) return directory.error();
    const Status added = directory->empty() ? done() : add_lines(*directory / "cgroup.threads", tids);
    if (!added) return added.error();
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

std::string thread_start_time(const fs::path& proc, pid_t tid) {
  const auto text = read_text(proc / std::to_string(tid) / "stat");
  if (!text) return {};
  const std::size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return {};
  std::string_view rest = std::string_view(*text).substr(name_end + 1);
  constexpr int behind_name = 22 - 2;
  for (int field = 0; field < behind_name; ++field) {
    const std::size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return {};
    rest.remove_prefix(blank + 1);
  }
  return std::string(rest.substr(0, rest.find(' ')));
}

}  // namespace osml
