#include "base/trust.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/number.h"

namespace osml {

namespace {

Result<struct stat> look(const fs::path& path, const std::string& what) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return errno_error(errno, what + " " + path.string());
  return facts;
}

// Who called sudo is root already.
bool called_sudo(uid_t user) {
  const char* caller = std::getenv("SUDO_UID");
  return caller != nullptr && parse_unsigned(caller) == static_cast<unsigned long long>(user);
}

bool trusted_owner(const struct stat& facts) {
  return facts.st_uid == 0 || facts.st_uid == ::geteuid() || called_sudo(facts.st_uid);
}
bool trusted_group(const struct stat& facts) { return facts.st_gid == 0 || facts.st_gid == ::getegid(); }

// Mounted so: modes mean nothing then. Kubernetes mounts configurations in directories that all may write.
bool is_read_only(const fs::path& path) {
  struct statvfs facts {};
  return ::statvfs(path.c_str(), &facts) == 0 && (facts.f_flag & ST_RDONLY) != 0;
}

Status refuse_one(const fs::path& path, const std::string& what, bool above) {
  const auto facts = look(path, what);
  if (!facts) return facts.error();
  const auto refused = [&](const std::string& why) {
    return Error{ErrorKind::Input, what + " " + path.string() + why};
  };
  if (!trusted_owner(*facts)) {
    return refused(" belongs to user " + std::to_string(facts->st_uid) + ", expected root; run: chown root " +
                   path.string());
  }
  if ((above && (facts->st_mode & S_ISVTX) != 0) || is_read_only(path)) return done();
  if ((facts->st_mode & S_IWOTH) != 0) return refused(" is writable by all users; run: chmod o-w " + path.string());
  if ((facts->st_mode & S_IWGRP) != 0 && !trusted_group(*facts)) {
    return refused(" is writable by group " + std::to_string(facts->st_gid) + "; run: chmod g-w " + path.string());
  }
  return done();
}

}  // namespace

Status refuse_untrusted(const fs::path& path, const std::string& what) {
  if (Status own = refuse_one(path, what, false); !own) return own;
  std::error_code code;
  const fs::path real = fs::canonical(path, code);
  if (code) return errno_error(code.value(), what + " " + path.string());
  for (const fs::path& start : {fs::absolute(path, code), real}) {
    for (fs::path above = start.parent_path(); above != above.root_path(); above = above.parent_path()) {
      if (Status trusted = refuse_one(above, what + " is in a directory that others can change:", true); !trusted) {
        return trusted;
      }
    }
  }
  return done();
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
