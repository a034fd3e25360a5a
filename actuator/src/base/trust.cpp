#include "base/trust.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/number.h"

namespace osml {

namespace {

Result<struct stat> look(const fs::path& path, const std::string& what) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return errno_error(errno, what + " " + path.string());
  return facts;
}

bool is_of_caller(const char* variable, unsigned long long id) {
  const char* caller = std::getenv(variable);
  return caller != nullptr && parse_unsigned(caller) == id;
}

// Who called sudo is root already.
bool called_sudo(uid_t user) { return is_of_caller("SUDO_UID", user); }

// Whether another account logs in with this group: such accounts are not among the members of the group.
bool others_log_in_with(gid_t group, uid_t user) {
  bool found = false;
  ::setpwent();
  for (const struct passwd* one = ::getpwent(); one != nullptr && !found; one = ::getpwent()) {
    found = one->pw_gid == group && one->pw_uid != user;
  }
  ::endpwent();
  return found;
}

// Ubuntu and Debian give each user a group with his own name, and Ubuntu lets that group write his files. If an
// administrator let others in, it is as any group. Accounts of a directory service that lists none are not seen.
bool is_private_group_of_caller(gid_t group) {
  if (!is_of_caller("SUDO_GID", group)) return false;
  const char* caller = std::getenv("SUDO_UID");
  const auto user = caller == nullptr ? std::nullopt : parse_unsigned(caller);
  if (!user) return false;
  const struct passwd* account = ::getpwuid(static_cast<uid_t>(*user));
  const struct group* entry = ::getgrgid(group);
  if (account == nullptr || entry == nullptr || account->pw_gid != group) return false;
  const std::string name = account->pw_name;
  if (name != entry->gr_name) return false;
  for (char** member = entry->gr_mem; *member != nullptr; ++member) {
    if (name != *member) return false;
  }
  return !others_log_in_with(group, static_cast<uid_t>(*user));
}

bool trusted_owner(const struct stat& facts) {
  return facts.st_uid == 0 || facts.st_uid == ::geteuid() || called_sudo(facts.st_uid);
}
bool trusted_group(const struct stat& facts) {
  return facts.st_gid == 0 || facts.st_gid == ::getegid() || is_private_group_of_caller(facts.st_gid);
}

// Mounted so: modes mean nothing then. Kubernetes mounts configurations in directories that all may write.
bool is_read_only(const fs::path& path) {
  struct statvfs facts {};
  return ::statvfs(path.c_str(), &facts) == 0 && (facts.f_flag & ST_RDONLY) != 0;
}

// Why a file is refused, and the commands that mend it: all of them, so that nobody meets the next one after the first.
struct Refusals {
  std::vector<std::string> why;
  std::vector<std::string> commands;
  bool home_of_another = false;  // a directory above is another user's: it is not for root to take

  [[nodiscard]] bool has(const std::string& command) const {
    return std::find(commands.begin(), commands.end(), command) != commands.end();
  }
  void add(const std::string& reason, const std::string& command) {
    if (has(command)) return;  // the path and where its links lead have directories in common
    why.push_back(reason);
    commands.push_back(command);
  }
};

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : between) + part;
  return all;
}

Status look_for_refusals(const fs::path& path, const std::string& what, bool above, Refusals& refusals) {
  const auto facts = look(path, what);
  if (!facts) return facts.error();
  const std::string named = what + " " + path.string();
  if (!trusted_owner(*facts)) {
    refusals.home_of_another |= above;
    refusals.add(named + " belongs to user " + std::to_string(facts->st_uid) + ", expected root",
                 "chown root " + path.string());
  }
  if ((above && (facts->st_mode & S_ISVTX) != 0) || is_read_only(path)) return done();
  if ((facts->st_mode & S_IWOTH) != 0) refusals.add(named + " is writable by all users", "chmod o-w " + path.string());
  if ((facts->st_mode & S_IWGRP) != 0 && !trusted_group(*facts)) {
    refusals.add(named + " is writable by group " + std::to_string(facts->st_gid), "chmod g-w " + path.string());
  }
  return done();
}

}  // namespace

Status refuse_untrusted(const fs::path& path, const std::string& what) {
  Refusals refusals;
  if (Status own = look_for_refusals(path, what, false, refusals); !own) return own;
  std::error_code code;
  const fs::path real = fs::canonical(path, code);
  if (code) return errno_error(code.value(), what + " " + path.string());
  const std::string inside = what + " is in a directory that others can change:";
  for (const fs::path& start : {fs::absolute(path, code), real}) {
    for (fs::path above = start.parent_path(); above != above.root_path(); above = above.parent_path()) {
      if (Status looked = look_for_refusals(above, inside, true, refusals); !looked) return looked;
    }
  }
  if (refusals.why.empty()) return done();
  if (refusals.home_of_another) {
    return Error{ErrorKind::Input,
                 joined(refusals.why, "; ") + "; put it where only root can write, such as /etc/osml"};
  }
  return Error{ErrorKind::Input, joined(refusals.why, "; ") + "; run: " + joined(refusals.commands, " && ")};
}

Status refuse_readable(const fs::path& path, const std::string& what) {
  const auto facts = look(path, what);
  if (!facts) return facts.error();
  if ((facts->st_mode & S_IROTH) == 0) return done();
  return Error{ErrorKind::Input,
               what + " " + path.string() + " is readable by all users; run: chmod o-r " + path.string()};
}

Status prepare_state_directory(const fs::path& path) {
  std::error_code code;
  if (!fs::exists(path, code)) {
    fs::create_directories(path.parent_path(), code);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
      return errno_error(errno, "cannot create state_dir " + path.string());
  }
  return check_state_directory(path);
}

Status check_state_directory(const fs::path& path) {
  std::error_code code;
  if (!fs::exists(path, code)) return done();
  if (!fs::is_directory(path, code)) {
    return Error{ErrorKind::Input, "state_dir " + path.string() +
                                       " is not a directory; set state_dir to a directory that the agent can write"};
  }
  return refuse_untrusted(path, "state_dir");
}

}  // namespace osml
