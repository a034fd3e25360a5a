#include "telemetry/telemetry_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

namespace osml {

namespace {

// A first look at a file that has grown for days reads its end only.
constexpr std::uint64_t longest_backlog = 65536;
constexpr std::size_t longest_line = 65536;

double seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double wall_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);  // the clock of mtime; nothing else here depends on it
  return seconds(now);
}

std::string rounded(double value) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

}  // namespace

TelemetryFile::TelemetryFile(fs::path path, double max_age_s, double time_scale)
    : path_(std::move(path)),
      max_age_s_(max_age_s),
      time_scale_(time_scale),
      reading_(Error{ErrorKind::Busy, "telemetry " + path_.string() + " was not read yet"}) {}

const Result<TelemetryReading>& TelemetryFile::read(const Interval& interval) {
  if (interval.number == interval_) return reading_;
  interval_ = interval.number;
  reading_ = refresh();
  return reading_;
}

Status TelemetryFile::open_current() {
  struct stat there {};
  if (::stat(path_.c_str(), &there) != 0) {
    fd_.reset();
    Error error = errno_error(errno, "telemetry " + path_.string());
    error.message += ", expected JSON lines; check the path, and that the service writes there";
    return error;
  }
  const bool same = fd_.valid() && there.st_ino == inode_ && there.st_dev == device_;
  const auto size = static_cast<std::uint64_t>(there.st_size);
  if (same && size >= offset_) return done();
  pending_.clear();
  skip_to_newline_ = false;
  if (!same) {
    const bool first = inode_ == 0;
    fd_ = Fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd_.valid()) return errno_error(errno, "telemetry " + path_.string());
    inode_ = there.st_ino;
    device_ = there.st_dev;
    offset_ = first && size > longest_backlog ? size - longest_backlog : 0;
    skip_to_newline_ = offset_ > 0;
  } else {
    offset_ = 0;
  }
  return done();
}

Status TelemetryFile::take_appended() {
  std::array<char, 8192> chunk{};
  while (true) {
    const ssize_t got = ::pread(fd_.get(), chunk.data(), chunk.size(), static_cast<off_t>(offset_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error(errno, "telemetry " + path_.string());
    if (got == 0) return done();
    offset_ += static_cast<std::uint64_t>(got);
    pending_.append(chunk.data(), static_cast<std::size_t>(got));
    take_lines();
  }
}

void TelemetryFile::take_lines() {
  std::size_t start = 0;
  for (std::size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n', start)) {
    const std::string_view line = trim(std::string_view(pending_).substr(start, end - start));
    start = end + 1;
    if (skip_to_newline_) {
      skip_to_newline_ = false;
      continue;
    }
    if (line.empty()) continue;
    if (auto sample = parse_telemetry_line(line)) {
      fresh_.push_back(*sample);
    } else {
      ++broken_lines_;
    }
  }
  pending_.erase(0, start);
  if (pending_.size() <= longest_line) return;
  pending_.clear();
  skip_to_newline_ = true;
  ++broken_lines_;
}

Result<TelemetryReading> TelemetryFile::refresh() {
  const bool first = inode_ == 0;
  fresh_.clear();
  broken_lines_ = 0;
  if (Status opened = open_current(); !opened) return opened.error();
  if (Status taken = take_appended(); !taken) return taken.error();
  // Lines from before we looked first are history, not this interval.
  if (first && fresh_.size() > 1) fresh_.erase(fresh_.begin(), fresh_.end() - 1);
  if (!fresh_.empty()) last_ = fresh_.back();

  struct stat now {};
  if (::fstat(fd_.get(), &now) != 0) return errno_error(errno, "telemetry " + path_.string());
  const double age_s = std::max(0.0, wall_now() - seconds(now.st_mtim)) * time_scale_;
  const std::string name = "telemetry " + path_.string();
  if (!last_) {
    const std::string why = broken_lines_ > 0 ? " contains no JSON lines" : " contains no complete line yet";
    return Error{ErrorKind::Busy, name + why};
  }
  if (age_s > max_age_s_) {
    return Error{ErrorKind::Busy, name + " is stale: last written " + rounded(age_s) + " s ago, expected at most " +
                                      rounded(max_age_s_) + " s; check that the service runs and writes this file"};
  }
  if (fresh_.empty() && broken_lines_ > 0) {
    return Error{ErrorKind::Io, name + ": the newest lines are not JSON objects"};
  }
  return TelemetryReading{fresh_.empty() ? *last_ : combine(fresh_), age_s};
}

}  // namespace osml
