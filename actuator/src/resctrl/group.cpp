#include "resctrl/group.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <thread>

namespace osml::resctrl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto busy_patience = std::chrono::milliseconds(1500);  // limbo is looked through once a second
constexpr auto busy_pause = std::chrono::milliseconds(100);
constexpr auto appear_patience = std::chrono::seconds(1);
constexpr auto appear_pause = std::chrono::milliseconds(2);
constexpr std::size_t chunk_bytes = 4000;  // one command is at most 4096 bytes
constexpr int purge_passes = 5;

// Trees that user space serves fill a new directory a moment after mkdir; the kernel does it at once.
Status await_files(const fs::path& group) {
  const auto deadline = Clock::now() + appear_patience;
  const bool control = group.parent_path().filename() != "mon_groups";
  while (!osml::exists(group / "tasks") || (control && !osml::exists(group / "schemata"))) {
    if (Clock::now() >= deadline) {
      return Error{ErrorKind::Io,
                   group.string() + " has no tasks file after it was created; check that resctrl is mounted there", 0};
    }
    std::this_thread::sleep_for(appear_pause);
  }
  return done();
}

Status purge_strays(const fs::path& root, const fs::path& group) {
  for (int pass = 0; pass < purge_passes; ++pass) {
    const auto strays = group_tasks(group);
    if (!strays) return strays.error();
    if (strays->empty()) return done();
    if (Status moved = move_tasks(root, root, *strays); !moved) return moved;
  }
  return done();
}

Error mkdir_error(int code, const fs::path& root, const fs::path& group) {
  Error error = errno_error(code, "cannot create group " + group.string());
  error.message += last_status(root);
  return error;
}

// One tid per write: kernel 6.1 takes no lists, and a list stops at the first thread that has ended.
Status move_singly(const fs::path& root, const fs::path& group, const std::vector<pid_t>& tids) {
  for (const pid_t tid : tids) {
    const Status moved = write_command(group / "tasks", std::to_string(tid) + "\n");
    if (moved || moved.error().code == ESRCH) continue;
    Error error = moved.error().wrap("cannot move thread " + std::to_string(tid));
    error.message += last_status(root);
    return error;
  }
  return done();
}

std::string comma_list(const std::vector<pid_t>& tids) {
  std::string text;
  for (const pid_t tid : tids) text += (text.empty() ? "" : ",") + std::to_string(tid);
  return text + "\n";
}

}  // namespace

std::string group_name(const std::string& service) { return std::string(group_prefix) + service; }

fs::path group_path(const fs::path& root, const std::string& service, bool allocates) {
  const std::string name = group_name(service);
  return allocates ? root / name : root / "mon_groups" / name;
}

Result<bool> make_group(const fs::path& root, const fs::path& group) {
  const auto deadline = Clock::now() + busy_patience;
  while (::mkdir(group.c_str(), 0755) != 0) {
    const int code = errno;
    if (code == EEXIST) {
      if (Status there = await_files(group); !there) return there.error();
      return false;
    }
    if (code != EBUSY || Clock::now() >= deadline) return mkdir_error(code, root, group);
    std::this_thread::sleep_for(busy_pause);
  }
  if (Status there = await_files(group); !there) return there.error();
  if (Status purged = purge_strays(root, group); !purged) return purged.error();
  return true;
}

Status remove_group(const fs::path& group) {
  if (::rmdir(group.c_str()) == 0 || errno == ENOENT) return done();
  int code = errno;
  // The kernel never answers ENOTEMPTY here; a tree of plain files does, and there we remove what is below ourselves.
  if (code == ENOTEMPTY && group.filename().string().starts_with(group_prefix)) {
    std::error_code problem;
    fs::remove_all(group, problem);
    if (!problem) return done();
    code = problem.value();
  }
  return errno_error(code, "cannot remove group " + group.string());
}

Result<std::vector<pid_t>> group_tasks(const fs::path& group) {
  const auto text = read_text(group / "tasks");
  if (!text) return text.error();
  std::vector<pid_t> tids;
  for (const std::string_view line : split_lines(*text)) {
    pid_t tid = 0;
    const std::string_view digits = trim(line);
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), tid);
    if (code == std::errc{} && end == digits.data() + digits.size()) tids.push_back(tid);
  }
  std::sort(tids.begin(), tids.end());
  return tids;
}

Status move_tasks(const fs::path& root, const fs::path& group, const std::vector<pid_t>& tids) {
  constexpr std::size_t per_chunk = chunk_bytes / 9;  // tids go up to 2^22: seven digits and a comma
  for (std::size_t first = 0; first < tids.size(); first += per_chunk) {
    const std::size_t count = std::min(per_chunk, tids.size() - first);
    const auto begin = tids.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<pid_t> chunk(begin, begin + static_cast<std::ptrdiff_t>(count));
    if (write_command(group / "tasks", comma_list(chunk))) continue;
    if (Status moved = move_singly(root, group, chunk); !moved) return moved;
  }
  return done();
}

Result<std::vector<fs::path>> all_groups(const fs::path& root) {
  std::vector<fs::path> groups;
  const auto add_monitoring = [&](const fs::path& parent) -> Status {
    const auto names = list_directory(parent / "mon_groups");
    if (!names) return names.error().kind == ErrorKind::Gone ? done() : Status(names.error());
    for (const std::string& name : *names) groups.push_back(parent / "mon_groups" / name);
    return done();
  };
  if (Status added = add_monitoring(root); !added) return added.error();
  const auto names = list_directory(root);
  if (!names) return names.error();
  for (const std::string& name : *names) {
    if (name == "info" || name == "mon_groups" || name == "mon_data") continue;
    const auto group = present(root / name / "tasks");
    if (!group) return group.error();
    if (!*group) continue;
    groups.push_back(root / name);
    if (Status added = add_monitoring(root / name); !added) return added.error();
  }
  return groups;
}

std::optional<unsigned> room_for_groups(const fs::path& root, const Info& info, const std::set<std::string>& ours) {
  const auto classes = info.max_groups();
  if (!classes) return std::nullopt;
  unsigned other_classes = 1;  // the root group
  unsigned other_rmids = 1;
  const auto groups = all_groups(root);
  for (const fs::path& group : groups ? *groups : std::vector<fs::path>{}) {
    if (ours.contains(group.lexically_relative(root).string())) continue;
    ++other_rmids;
    if (group.parent_path() == root) ++other_classes;
  }
  const auto left = [](unsigned all, unsigned taken) { return all > taken ? all - taken : 0; };
  const unsigned room = left(*classes, other_classes);
  return info.monitor ? std::min(room, left(info.monitor->num_rmids, other_rmids)) : room;
}

bool is_ours(const fs::path& root, const fs::path& group) {
  const fs::path below = group.lexically_relative(root);
  return std::any_of(below.begin(), below.end(),
                     [](const fs::path& part) { return part.native().starts_with(group_prefix); });
}

}  // namespace osml::resctrl
