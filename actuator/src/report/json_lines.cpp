#include "report/json_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace osml {

Status JsonLines::open() {
  fd_ = Fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd_.valid()) return errno_error(errno, "cannot open " + path_.string());
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) return errno_error(errno, "cannot stat " + path_.string());
  size_ = static_cast<std::uint64_t>(info.st_size);
  // A machine that lost its power may have left half a line: the next one shall not be part of it.
  if (char last = '\n'; size_ > 0 && ::pread(fd_.get(), &last, 1, info.st_size - 1) == 1 && last != '\n') {
    if (::write(fd_.get(), "\n", 1) == 1) ++size_;
  }
  return done();
}

Status JsonLines::rotate() {
  const std::string older = path_.string() + ".1";
  // ENOENT: somebody was faster, and there is room now
  if (::rename(path_.c_str(), older.c_str()) != 0 && errno != ENOENT) {
    return errno_error(errno, "cannot rename " + path_.string());
  }
  return open();
}

bool JsonLines::in_place() const {
  struct stat here {};
  struct stat there {};
  if (!fd_.valid() || ::fstat(fd_.get(), &here) != 0) return false;
  if (::lstat(path_.c_str(), &there) != 0) return errno != ENOENT;
  return here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

Status JsonLines::append(const std::string& line) {
  if (!in_place()) {
    if (Status opened = open(); !opened) return opened;
  }
  const std::string text = line + "\n";
  if (max_bytes_ > 0 && size_ > 0 && size_ + text.size() > max_bytes_) {
    if (Status rotated = rotate(); !rotated) return rotated;
  }
  const ssize_t written = ::write(fd_.get(), text.data(), text.size());
  if (written < 0) return errno_error(errno, "cannot write " + path_.string());
  if (static_cast<std::size_t>(written) != text.size()) {
    // What is appended later, by another run even, shall begin a line. From the end of the file as it is now: somebody
    // may have emptied it since.
    if (const off_t end = ::lseek(fd_.get(), 0, SEEK_END); end >= written) (void)!::ftruncate(fd_.get(), end - written);
    return Error{ErrorKind::Capacity,
                 "cannot write " + path_.string() + ": the disk may be full; the incomplete line was removed", ENOSPC};
  }
  size_ += static_cast<std::uint64_t>(written);
  return done();
}

}  // namespace osml
