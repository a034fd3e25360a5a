#include "telemetry/line_follower.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/untrusted_file.h"

namespace osml {

namespace {

// A first look at a file that has grown for days reads its end only.
constexpr std::uint64_t longest_backlog = 65536;
constexpr std::size_t longest_line = 65536;
// One look's work: a service that writes more has the oldest of it skipped.
constexpr std::uint64_t most_bytes = 262144;
constexpr std::size_t most_lines = 1024;
// A longer line shifts what is behind the change, so a few bytes tell.
constexpr std::size_t longest_tail = 64;

bool same_time(const timespec& one, const timespec& other) {
  return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

}  // namespace

Result<struct stat> LineFollower::open_current() {
  struct stat facts {};
  if (::lstat(path_.c_str(), &facts) != 0) {
    read_rest();
    fd_.reset();
    Error error = untrusted_error(errno, path_);
    if (error.kind == ErrorKind::Gone)
      error.message += ", expected JSON lines; check the path, and that the service writes there";
    return error;
  }
  if (fd_.valid() && facts.st_ino == inode_ && facts.st_dev == device_) return facts;
  auto file = open_untrusted(path_);
  if (!file) return file.error();
  read_rest();
  fd_ = std::move(file->fd);
  return file->facts;
}

LineFollower::Now LineFollower::now(const struct stat& facts) const {
  if (inode_ == 0) return Now::First;
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  // The path may have failed for a while: the same file goes on where it was left.
  if (facts.st_ino != inode_ || facts.st_dev != device_) return Now::Anew;
  if (size < offset_) return Now::Rewritten;
  if (size == offset_ && same_time(facts.st_mtim, written_)) return Now::Continues;
  std::array<char, longest_tail> there{};
  const ssize_t got = ::pread(fd_.get(), there.data(), tail_.size(), static_cast<off_t>(offset_ - tail_.size()));
  if (std::string_view(there.data(), got < 0 ? 0 : static_cast<std::size_t>(got)) != tail_) return Now::Rewritten;
  return size == offset_ ? Now::Touched : Now::Continues;
}

void LineFollower::read_rest() {
  struct stat facts {};
  if (!fd_.valid() || ::fstat(fd_.get(), &facts) != 0) return;
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (size <= offset_) return;
  if (size - offset_ > most_bytes) start_at(size - most_bytes);
  if (read_appended(size)) written_ = facts.st_mtim;  // it may come back
}

void LineFollower::start_at(std::uint64_t offset) {
  offset_ = offset;
  tail_.clear();
  pending_.clear();
  skip_to_newline_ = offset > 0;
}

// What is written while this reads waits for the next look.
Status LineFollower::read_appended(std::uint64_t size) {
  std::array<char, 8192> chunk{};
  while (offset_ < size) {
    const std::size_t wanted = std::min<std::uint64_t>(chunk.size(), size - offset_);
    const ssize_t got = ::pread(fd_.get(), chunk.data(), wanted, static_cast<off_t>(offset_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error(errno, path_.string());
    if (got == 0) break;
    offset_ += static_cast<std::uint64_t>(got);
    pending_.append(chunk.data(), static_cast<std::size_t>(got));
    tail_.append(chunk.data(), static_cast<std::size_t>(got));
    if (tail_.size() > longest_tail) tail_.erase(0, tail_.size() - longest_tail);
  }
  return done();
}

void LineFollower::take_lines(Look& look) {
  const std::size_t end = pending_.rfind('\n');
  if (end != std::string::npos) {
    const std::vector<std::string_view> lines = split_lines(std::string_view(pending_).substr(0, end + 1));
    const std::size_t skipped = skip_to_newline_ ? 1 : 0;
    skip_to_newline_ = false;
    const std::size_t first = std::max(skipped, lines.size() > most_lines ? lines.size() - most_lines : 0);
    for (std::size_t index = first; index < lines.size(); ++index) {
      if (const std::string_view line = trim(lines[index]); !line.empty()) look.lines.emplace_back(line);
    }
    pending_.erase(0, end + 1);
  }
  if (pending_.size() <= longest_line) return;
  pending_ = std::string();
  skip_to_newline_ = true;
  look.too_long = true;
}

Result<LineFollower::Look> LineFollower::look() {
  const auto facts = open_current();
  if (!facts) return facts.error();
  const auto size = static_cast<std::uint64_t>(facts->st_size);
  const Now is = now(*facts);
  const bool written_over = is == Now::Touched || is == Now::Rewritten || (written_over_ && is == Now::Continues);
  Look look;
  if (is == Now::Anew) take_lines(look);  // of the file that was moved away
  const std::uint64_t most = is == Now::First ? longest_backlog : written_over ? longest_line : most_bytes;
  if (is != Now::Continues) start_at(0);
  if (size - offset_ > most) start_at(size - most);
  inode_ = facts->st_ino;
  device_ = facts->st_dev;
  written_ = facts->st_mtim;
  if (Status read = read_appended(size); !read) return read.error();
  look.first = is == Now::First;
  look.written = written_;
  take_lines(look);
  written_over_ = written_over && look.lines.empty();
  if ((is == Now::First || written_over) && look.lines.size() > 1)
    look.lines.erase(look.lines.begin(), look.lines.end() - 1);
  // A write sets both times. Who gives a file a time of their own writes nothing.
  const bool given_time = is == Now::Touched && !same_time(facts->st_mtim, facts->st_ctim);
  look.again = is == Now::Touched && !look.lines.empty() && look.lines.back() == newest_;
  if (given_time && look.again) look.lines.clear();
  if (!look.lines.empty()) newest_ = look.lines.back();
  return look;
}

}  // namespace osml
