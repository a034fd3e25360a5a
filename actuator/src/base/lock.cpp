#include "base/lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <thread>

namespace osml {

namespace {

Result<Fd> lock(const fs::path& path, int flags, std::chrono::milliseconds patience) {
  Fd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!fd.valid()) return errno_error(errno, "cannot open " + path.string());
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return errno_error(errno, "cannot lock " + path.string());
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error{ErrorKind::Busy,
                   path.string() + " is locked by another process; wait until that process ends, or stop it",
                   EWOULDBLOCK};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return fd;
}

}  // namespace

Result<Fd> lock_exclusive(const fs::path& path, std::chrono::milliseconds patience) {
  return lock(path, O_RDONLY, patience);
}

Result<Fd> lock_file(const fs::path& path, std::chrono::milliseconds patience) {
  return lock(path, O_RDWR | O_CREAT | O_NOFOLLOW, patience);
}

}  // namespace osml
