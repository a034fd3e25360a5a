#include "telemetry/telemetry_file.h"

#include <algorithm>
#include <array>
#include <ctime>

namespace osml {

namespace {

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
      follower_(path_),
      reading_(Error{ErrorKind::Busy, "telemetry " + path_.string() + " was not read yet"}) {}

const Result<TelemetryReading>& TelemetryFile::read(const Interval& interval) {
  if (interval.number == interval_) return reading_;
  interval_ = interval.number;
  reading_ = refresh(interval);
  return reading_;
}

Result<TelemetryReading> TelemetryFile::read_since(const Interval& interval, std::optional<std::uint64_t> known) {
  const Result<TelemetryReading>& reading = read(interval);
  if (!reading || news_ != known) return reading;
  return Error{ErrorKind::Busy,
               "telemetry " + path_.string() +
                   " has no line since the service came back; check that the service writes this file"};
}

// The time of a file is the wall clock's, which may be set back, or whatever its owner says, and half a line renews it
// too. So a line that is not followed by another one grows old by our own clock.
double TelemetryFile::age_s(const timespec& written, bool fresh, double now_s) {
  const double of_file_s = std::max(0.0, (wall_now() - seconds(written)) * time_scale_);
  if (!line_s_) {
    line_s_ = now_s - of_file_s;
  } else if (fresh) {
    line_s_ = now_s;
  }
  return std::max(of_file_s, now_s - *line_s_);
}

Result<TelemetryReading> TelemetryFile::refresh(const Interval& interval) {
  const auto look = follower_.look();
  if (!look) {
    Error error = look.error();
    error.message.insert(0, "telemetry ");
    return error;
  }
  std::vector<TelemetrySample> fresh;
  bool broken = look->too_long;
  for (const std::string& line : look->lines) {
    if (const auto sample = parse_telemetry_line(line)) {
      fresh.push_back(*sample);
    } else {
      broken = true;
    }
  }
  if (!fresh.empty()) {
    last_ = fresh.back();
    ++news_;
  }
  const double age = age_s(look->written, !fresh.empty(), interval.time_s);
  const std::string name = "telemetry " + path_.string();
  if (!last_) {
    return Error{ErrorKind::Busy, name + (broken ? " contains no JSON lines" : " contains no complete line yet")};
  }
  if (age > max_age_s_) {
    return Error{ErrorKind::Busy, name + " is stale: last written " + rounded(age) + " s ago, expected at most " +
                                      rounded(max_age_s_) + " s; check that the service runs and writes this file"};
  }
  if (fresh.empty() && broken) return Error{ErrorKind::Io, name + ": the newest lines are not JSON objects"};
  TelemetryReading reading{fresh.empty() ? *last_ : combine(fresh), age};
  fit_amounts(reading.sample, interval.length_s);
  // Before a reload the newest line counted already, and so may have one that is there once more.
  if (fresh.empty() || look->first || look->again) reading.silent = take_amounts(reading.sample);
  return reading;
}

}  // namespace osml
