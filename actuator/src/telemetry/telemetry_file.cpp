#include "telemetry/telemetry_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "base/untrusted_file.h"

namespace osml {

namespace {

// A first look at a file that has grown for days reads its end only.
constexpr std::uint64_t longest_backlog = 65536;
constexpr std::size_t longest_line = 65536;
// One interval's work: a service that writes more has the oldest of it skipped.
constexpr std::uint64_t most_bytes = 262144;
constexpr std::size_t most_lines = 1024;

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
  reading_ = refresh(interval.time_s);
  return reading_;
}

Status TelemetryFile::open_current() {
  struct stat there {};
  if (::lstat(path_.c_str(), &there) != 0) {
    fd_.reset();
    Error error = untrusted_error(errno, path_);
    error.message.insert(0, "telemetry ");
    if (error.kind == ErrorKind::Gone)
      error.message += ", expected JSON lines; check the path, and that the service writes there";
    return error;
  }
  if (!fd_.valid() || there.st_ino != inode_ || there.st_dev != device_) return open_new();
  const auto size = static_cast<std::uint64_t>(there.st_size);
  if (size < offset_) start_at(0);
  if (size - offset_ > most_bytes) start_at(size - most_bytes);
  return done();
}

Status TelemetryFile::open_new() {
  const bool first = inode_ == 0;
  auto file = open_untrusted(path_);
  if (!file) return file.error().wrap("telemetry");
  fd_ = std::move(file->fd);
  inode_ = file->facts.st_ino;
  device_ = file->facts.st_dev;
  const auto size = static_cast<std::uint64_t>(file->facts.st_size);
  const std::uint64_t most = first ? longest_backlog : most_bytes;
  start_at(size > most ? size - most : 0);
  return done();
}

void TelemetryFile::start_at(std::uint64_t offset) {
  offset_ = offset;
  pending_.clear();
  skip_to_newline_ = offset > 0;
}

// What is written while this reads waits for the next interval.
Status TelemetryFile::take_appended() {
  std::array<char, 8192> chunk{};
  for (std::size_t taken = 0; taken < most_bytes;) {
    const ssize_t got = ::pread(fd_.get(), chunk.data(), chunk.size(), static_cast<off_t>(offset_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error(errno, "telemetry " + path_.string());
    if (got == 0) break;
    taken += static_cast<std::size_t>(got);
    offset_ += static_cast<std::uint64_t>(got);
    pending_.append(chunk.data(), static_cast<std::size_t>(got));
  }
  take_lines();
  return done();
}

// Complete lines, the newest `most_lines` of them.
void TelemetryFile::take_lines() {
  const std::size_t end = pending_.rfind('\n');
  if (end != std::string::npos) {
    std::vector<std::string_view> lines = split_lines(std::string_view(pending_).substr(0, end + 1));
    const std::size_t skipped = skip_to_newline_ ? 1 : 0;
    skip_to_newline_ = false;
    const std::size_t first = std::max(skipped, lines.size() > most_lines ? lines.size() - most_lines : 0);
    for (std::size_t index = first; index < lines.size(); ++index) take_line(trim(lines[index]));
    pending_.erase(0, end + 1);
  }
  if (pending_.size() <= longest_line) return;
  pending_ = std::string();
  skip_to_newline_ = true;
  ++broken_lines_;
}

void TelemetryFile::take_line(std::string_view line) {
  if (line.empty()) return;
  if (auto sample = parse_telemetry_line(line)) {
    fresh_.push_back(*sample);
  } else {
    ++broken_lines_;
  }
}

// The time of a file is the wall clock's, which may be set back, or whatever its owner says. So what does not change
// for our own clock grows old too.
double TelemetryFile::age_s(const timespec& written, double now_s) {
  const bool same = written_ && written.tv_sec == written_->tv_sec && written.tv_nsec == written_->tv_nsec;
  if (!same || !fresh_.empty()) changed_s_ = now_s;
  written_ = written;
  return std::max((wall_now() - seconds(written)) * time_scale_, now_s - changed_s_);
}

Result<TelemetryReading> TelemetryFile::refresh(double now_s) {
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
  const double age = age_s(now.st_mtim, now_s);
  const std::string name = "telemetry " + path_.string();
  if (!last_) {
    const std::string why = broken_lines_ > 0 ? " contains no JSON lines" : " contains no complete line yet";
    return Error{ErrorKind::Busy, name + why};
  }
  if (age > max_age_s_) {
    return Error{ErrorKind::Busy, name + " is stale: last written " + rounded(age) + " s ago, expected at most " +
                                      rounded(max_age_s_) + " s; check that the service runs and writes this file"};
  }
  if (fresh_.empty() && broken_lines_ > 0) {
    return Error{ErrorKind::Io, name + ": the newest lines are not JSON objects"};
  }
  return TelemetryReading{fresh_.empty() ? *last_ : combine(fresh_), age};
}

}  // namespace osml
