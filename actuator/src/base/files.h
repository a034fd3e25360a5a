// Small-file access as kernel file systems want it: one read(2) from offset 0, one write(2) per command, and the
// errno kept. Everything takes a path below an injected root, so that the same code runs on a real machine, on the
// virtual node's tree and in tests.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace osml {

namespace fs = std::filesystem;

// Owner of a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

constexpr std::size_t most_text = std::size_t{1} << 20U;
// The whole text of a kernel file, trailing newline removed. Longer than `most` bytes is an error.
Result<std::string> read_text(const fs::path& path, std::size_t most = most_text);
// Exactly one write(2) of `text` (the caller adds the newline). O_WRONLY|O_TRUNC, no O_CREAT. A short write fails.
Status write_command(const fs::path& path, std::string_view text);
// Same, on plain files of our own: temporary file, fsync, rename, fsync of the directory. Mode 0600.
Status write_atomically(const fs::path& path, std::string_view text);
// One unsigned number; Error Io when the text is no number.
Result<unsigned long long> read_number(const fs::path& path);
// Names in a directory, sorted, without "." and "..".
Result<std::vector<std::string>> list_directory(const fs::path& path);
// The same of the directories in it; links to directories are none.
Result<std::vector<std::string>> list_subdirectories(const fs::path& path);
// True where the path exists (any type); also false where nobody can tell.
bool exists(const fs::path& path);
// The same where the difference matters: gone (ENOENT, ENOTDIR, ENODEV) is false, everything else an error.
Result<bool> present(const fs::path& path);
// A path that leads to nothing outside of the directory that it is put behind: relative, without "..".
bool stays_below(const fs::path& path);
// The one spelling of a directory's path: without "." and without slashes that say nothing.
std::string plain_path(const fs::path& path);
// Lines of a text; the last one needs no newline; empty text has none.
std::vector<std::string_view> split_lines(std::string_view text);
// Without white space at both ends.
std::string_view trim(std::string_view text);

}  // namespace osml
