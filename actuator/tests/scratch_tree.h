// A directory that goes with the test, filled with small files.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

#include "base/files.h"

namespace osml::testing_support {

// Where fsync(2) costs nothing, for tests that write thousands of journals.
inline fs::path in_memory() { return fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path(); }

class ScratchTree {
 public:
  explicit ScratchTree(const fs::path& parent = fs::temp_directory_path()) {
    std::string pattern = (parent / "osml-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::system_error(errno, std::generic_category(), pattern);
    root_ = pattern;
  }
  ScratchTree(const ScratchTree&) = delete;
  ScratchTree& operator=(const ScratchTree&) = delete;
  ~ScratchTree() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  [[nodiscard]] const fs::path& root() const { return root_; }
  [[nodiscard]] fs::path operator/(const std::string& path) const { return root_ / path; }
  // Replaces the text in place (same inode), as a kernel file seems to do.
  const ScratchTree& write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::trunc) << text;
    return *this;
  }
  void append(const std::string& path, const std::string& text) const {
    std::ofstream(root_ / path, std::ios::app) << text;
  }
  // As the agent reads it: without the newline at the end.
  [[nodiscard]] std::string text(const std::string& path) const {
    const auto read = read_text(root_ / path);
    return read ? *read : "<" + read.error().message + ">";
  }

 private:
  fs::path root_;
};

}  // namespace osml::testing_support
