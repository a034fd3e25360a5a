#include "base/untrusted_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace osml {

namespace {

constexpr int most_links = 40;  // the kernel's own limit

Error link_error(const fs::path& path) {
  return {ErrorKind::Permission, path.string() + " is a symbolic link, expected a regular file", ELOOP};
}

// The path without symbolic links above its last component. Links that the service could have made are an error. What
// changes after this look is refused when the file is opened.
Result<fs::path> without_links(const fs::path& path) {
  fs::path resolved = path.is_absolute() ? fs::path("/") : fs::path(".");
  fs::path rest = path.relative_path();
  for (int links = 0; std::distance(rest.begin(), rest.end()) > 1;) {
    const fs::path part = *rest.begin();
    rest = rest.lexically_relative(part);
    struct stat facts {};
    if (::lstat((resolved / part).c_str(), &facts) != 0) return untrusted_error(errno, path);
    if (!S_ISLNK(facts.st_mode)) {
      resolved /= part;
      continue;
    }
    if ((facts.st_uid != 0 && facts.st_uid != ::geteuid()) || ++links > most_links) return link_error(resolved / part);
    std::error_code problem;
    const fs::path target = fs::read_symlink(resolved / part, problem);
    if (problem) return untrusted_error(problem.value(), path);
    rest = target.relative_path() / rest;
    if (target.is_absolute()) resolved = "/";
  }
  return resolved / rest;
}

int open_without_links(const fs::path& path) {
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY;
  open_how how{};
  how.flags = flags;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const long fd = ::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how);
  // Kernels before 5.6, and filters of system calls that do not know it.
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) return ::open(path.c_str(), flags);
  return static_cast<int>(fd);
}

}  // namespace

Error untrusted_error(int code, const fs::path& path) {
  Error error = errno_error(code, path.string());
  if (code == EACCES) {
    error.message +=
        "; the agent has no right to read files of others: run chmod o+r on it, and o+x on its directories";
  }
  return error;
}

Result<UntrustedFile> open_untrusted(const fs::path& path) {
  const auto resolved = without_links(path);
  if (!resolved) return resolved.error();
  UntrustedFile file;
  file.fd = Fd(open_without_links(*resolved));
  if (!file.fd.valid()) return errno == ELOOP ? link_error(path) : untrusted_error(errno, path);
  if (::fstat(file.fd.get(), &file.facts) != 0) return untrusted_error(errno, path);
  if (S_ISREG(file.facts.st_mode)) return file;
  return Error{ErrorKind::Permission, path.string() + " is no regular file, expected one", 0};
}

Result<UntrustedText> read_untrusted(const fs::path& path, std::size_t most) {
  const auto file = open_untrusted(path);
  if (!file) return file.error();
  std::string text(most, '\0');
  const ssize_t got = ::pread(file->fd.get(), text.data(), text.size(), 0);
  if (got < 0) return untrusted_error(errno, path);
  text.resize(static_cast<std::size_t>(got));
  return UntrustedText{std::move(text), file->facts.st_uid, file->facts.st_mtim};
}

}  // namespace osml
