// A directory that goes with the test, filled with small files.
#pragma once

#include <unistd.h>

#include <fstream>
#include <string>

#include "base/files.h"

namespace osml::testing_support {

class ScratchTree {
 public:
  ScratchTree() {
    std::string pattern = (fs::temp_directory_path() / "osml-test-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
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
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::trunc) << text;
  }
  void append(const std::string& path, const std::string& text) const {
    std::ofstream(root_ / path, std::ios::app) << text;
  }

 private:
  fs::path root_;
};

}  // namespace osml::testing_support
