#include "base/kept_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

namespace osml {

namespace {

constexpr std::size_t longest_text = std::size_t{1} << 20U;

std::vector<char>& shared_buffer() {
  static std::vector<char> buffer(4096);
  return buffer;
}

}  // namespace

std::optional<std::string_view> KeptFile::read() {
  if (!fd_.valid()) fd_ = Fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd_.valid()) {
    error_ = errno;
    return std::nullopt;
  }
  std::vector<char>& buffer = shared_buffer();
  std::size_t length = 0;
  while (true) {
    const ssize_t got = ::pread(fd_.get(), buffer.data() + length, buffer.size() - length, static_cast<off_t>(length));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      error_ = errno;
      close();
      return std::nullopt;
    }
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
    if (length == buffer.size() && length < longest_text) buffer.resize(2 * length);
    if (length == buffer.size()) break;
  }
  error_ = 0;
  return trim(std::string_view(buffer.data(), length));
}

std::optional<std::uint64_t> KeptFile::read_number() {
  const auto text = read();
  return text ? leading_number(*text) : std::nullopt;
}

std::optional<std::uint64_t> leading_number(std::string_view text) {
  text = trim(text);
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size() || *end == ' ' || *end == '\t' || *end == '\n';
  if (code != std::errc{} || !whole) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> keyed_number(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (line.size() > key.size() && line.substr(0, key.size()) == key &&
        (line[key.size()] == ' ' || line[key.size()] == '\t')) {
      return leading_number(line.substr(key.size()));
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return std::nullopt;
}

}  // namespace osml
