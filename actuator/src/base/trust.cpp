#include "base/trust.h"

#include <sys/stat.h>

#include <cerrno>

namespace osml {

Status refuse_world_writable(const fs::path& path, const std::string& what) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return errno_error(errno, what + " " + path.string());
  if ((facts.st_mode & S_IWOTH) != 0) {
    return Error{ErrorKind::Input,
                 what + " " + path.string() + " is writable by all users; run: chmod o-w " + path.string()};
  }
  return done();
}

Status prepare_state_directory(const fs::path& path) {
  std::error_code code;
  if (!fs::exists(path, code)) {
    fs::create_directories(path.parent_path(), code);
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
      return errno_error(errno, "cannot create state_dir " + path.string());
  }
  if (!fs::is_directory(path, code)) {
    return Error{ErrorKind::Input, "state_dir " + path.string() +
                                       " is not a directory; set state_dir to a directory that the agent can write"};
  }
  return refuse_world_writable(path, "state_dir");
}

}  // namespace osml
