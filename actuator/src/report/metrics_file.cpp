#include "report/metrics_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace osml {

Status replace_metrics_file(const fs::path& path, std::string_view text) {
  const std::string beside = path.string() + ".tmp";
  // Whatever is at this name, a link even, goes first: O_EXCL makes the file ours.
  (void)::unlink(beside.c_str());
  const Fd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return errno_error(errno, "cannot write " + beside);
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  const int code = written < 0 ? errno : ENOSPC;
  if (written != static_cast<ssize_t>(text.size())) {
    (void)::unlink(beside.c_str());
    return errno_error(code, "cannot write " + beside);
  }
  const bool readable = ::fchmod(file.get(), 0644) == 0;
  if (readable && ::rename(beside.c_str(), path.c_str()) == 0) return done();
  const Error error = errno_error(
      errno, (readable ? "cannot rename the new file to " : "cannot chmod the new file for ") + path.string());
  (void)::unlink(beside.c_str());
  return error;
}

}  // namespace osml
