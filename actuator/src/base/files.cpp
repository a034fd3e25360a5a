#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>

namespace osml {

namespace {

// Not all file systems say in the entry what it is.
bool is_directory(DIR* directory, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
  struct stat facts {};
  const char* name = static_cast<const char*>(entry.d_name);
  return ::fstatat(::dirfd(directory), name, &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(facts.st_mode);
}

Result<std::vector<std::string>> list(const fs::path& path, bool directories_only) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (!directory) return errno_error(errno, "cannot open " + path.string());
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name(static_cast<const char*>(entry->d_name));
    if (name == "." || name == ".." || (directories_only && !is_directory(directory.get(), *entry))) continue;
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status write_all(int fd, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno_error(errno, "cannot write " + name);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return done();
}

// Empty: the directory in which we are.
Status sync_directory(const fs::path& parent) {
  const fs::path path = parent.empty() ? fs::path(".") : parent;
  const Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return errno_error(errno, "cannot open " + path.string());
  if (::fsync(directory.get()) != 0) return errno_error(errno, "cannot fsync " + path.string());
  return done();
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<std::string> read_text(const fs::path& path, std::size_t most) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return errno_error(errno, "cannot open " + path.string());
  std::string text;
  std::array<char, 8192> buffer{};
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno_error(errno, "cannot read " + path.string());
    }
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > most) {
      return Error{ErrorKind::Io, path.string() + " is longer than " + std::to_string(most >> 20U) + " MiB", EFBIG};
    }
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Status write_command(const fs::path& path, std::string_view text) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!fd.valid()) return errno_error(errno, "cannot open " + path.string());
  ssize_t written = 0;
  do {
    written = ::write(fd.get(), text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) return errno_error(errno, "cannot write " + path.string());
  if (static_cast<std::size_t>(written) != text.size()) {
    return Error{ErrorKind::Io, "cannot write " + path.string() + ": the kernel accepted only a part of the command",
                 EIO};
  }
  return done();
}

Status write_atomically(const fs::path& path, std::string_view text) {
  const fs::path temporary = path.string() + ".new";
  {
    const Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.valid()) return errno_error(errno, "cannot open " + temporary.string());
    if (Status written = write_all(fd.get(), text, temporary.string()); !written) {
      ::unlink(temporary.c_str());
      return written;
    }
    if (::fsync(fd.get()) != 0) return errno_error(errno, "cannot fsync " + temporary.string());
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return errno_error(errno, "cannot rename " + temporary.string());
  return sync_directory(path.parent_path());
}

Result<unsigned long long> read_number(const fs::path& path) {
  auto text = read_text(path);
  if (!text) return text.error();
  const std::string_view digits = trim(*text);
  unsigned long long value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc{} || end != digits.data() + digits.size()) {
    return Error{ErrorKind::Io, path.string() + " contains '" + std::string(digits) + "', expected a number", EINVAL};
  }
  return value;
}

Result<std::vector<std::string>> list_directory(const fs::path& path) { return list(path, false); }

Result<std::vector<std::string>> list_subdirectories(const fs::path& path) { return list(path, true); }

bool exists(const fs::path& path) {
  std::error_code code;
  return fs::exists(path, code);
}

Result<bool> present(const fs::path& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR || errno == ENODEV) return false;
  return errno_error(errno, "cannot look at " + path.string());
}

bool stays_below(const fs::path& path) {
  return path.is_relative() &&
         std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

std::string plain_path(const fs::path& path) {
  std::string plain = path.lexically_normal().string();
  if (plain.ends_with('/')) plain.pop_back();
  return plain;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

}  // namespace osml
