// A kernel file that is read every interval: opened once, then one pread(2) from offset 0 a turn, which makes the
// kernel produce its text anew. A file whose task, group or domain has gone (ENODEV, ESRCH) is closed, so that the next
// read opens whatever is there by then.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace osml {

class KeptFile {
 public:
  explicit KeptFile(fs::path path) : path_(std::move(path)) {}

  // The text without the newline at its end; none where it cannot be read (see error()). Lives until the next call of
  // any KeptFile's read(): all of them share one buffer, since there is one thread.
  std::optional<std::string_view> read();
  // One unsigned number.
  std::optional<std::uint64_t> read_number();
  [[nodiscard]] int error() const { return error_; }  // errno of the last read, 0 where it succeeded
  [[nodiscard]] const fs::path& path() const { return path_; }
  void close() { fd_.reset(); }

 private:
  fs::path path_;
  Fd fd_;
  int error_ = 0;
};

// The number behind "key " in a text of "key value" lines, as cpu.stat and memory.stat have them.
std::optional<std::uint64_t> keyed_number(std::string_view text, std::string_view key);
// The first number of a text such as "  512 kB".
std::optional<std::uint64_t> leading_number(std::string_view text);
// So many numbers with blanks between them, from the start of a text; none where there are fewer.
template <std::size_t count>
std::optional<std::array<std::uint64_t, count>> leading_numbers(std::string_view text) {
  std::array<std::uint64_t, count> found{};
  for (std::uint64_t& one : found) {
    text = trim(text);
    const auto number = leading_number(text);
    if (!number) return std::nullopt;
    one = *number;
    text.remove_prefix(std::min(text.find(' '), text.size()));
  }
  return found;
}

}  // namespace osml
