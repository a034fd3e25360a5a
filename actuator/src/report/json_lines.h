// A file of JSON lines that the agent appends to; one write(2) a line, so that readers see whole lines.
#pragma once

#include <cstdint>
#include <string>

#include "base/files.h"
#include "base/result.h"

namespace osml {

class JsonLines {
 public:
  // Renamed to <path>.1 (the one before is dropped) when it would grow over `max_bytes`; 0 = never.
  JsonLines(fs::path path, std::uint64_t max_bytes) : path_(std::move(path)), max_bytes_(max_bytes) {}

  // Appends the line and a newline. Opens the file (0600) where it is not open, or somebody moved or deleted it.
  Status append(const std::string& line);
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  Status open();
  Status rotate();
  // Whether what is open is what the path names.
  [[nodiscard]] bool in_place() const;

  fs::path path_;
  std::uint64_t max_bytes_;
  std::uint64_t size_ = 0;
  Fd fd_;
};

}  // namespace osml
