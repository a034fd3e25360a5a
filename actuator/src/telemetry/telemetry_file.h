// Follows a telemetry file: every interval only what was appended since. A half-written last line waits until it is
// complete; a file that was rotated (other inode) or truncated is read from its start again.
#pragma once

#include <string>

#include "base/files.h"
#include "base/result.h"
#include "domain/interval.h"
#include "telemetry/telemetry_line.h"

namespace osml {

struct TelemetryReading {
  TelemetrySample sample;
  double age_s = 0;  // node time since the file was written last
};

class TelemetryFile {
 public:
  // `time_scale`: node time per wall time, because the file's age is wall time.
  TelemetryFile(fs::path path, double max_age_s, double time_scale);

  // The lines of this interval as one sample, or the newest line where none was added but it is not stale. The error
  // is the sentence for Observation.missing. Reads once per interval, however often it is called.
  const Result<TelemetryReading>& read(const Interval& interval);

 private:
  Result<TelemetryReading> refresh(double now_s);
  // Node time since the file was written last.
  [[nodiscard]] double age_s(const timespec& written, double now_s);
  Status open_current();
  Status open_new();
  void start_at(std::uint64_t offset);
  Status take_appended();
  void take_lines();
  void take_line(std::string_view line);

  fs::path path_;
  double max_age_s_;
  double time_scale_;
  Fd fd_;
  std::uint64_t inode_ = 0;
  std::uint64_t device_ = 0;
  std::uint64_t offset_ = 0;
  std::string pending_;                 // what was read behind the last newline
  std::vector<TelemetrySample> fresh_;  // lines of this interval
  std::optional<TelemetrySample> last_;
  std::size_t broken_lines_ = 0;     // of this interval
  std::optional<timespec> written_;  // as the file system says
  double changed_s_ = 0;             // node time at which that changed last
  bool skip_to_newline_ = false;
  std::uint64_t interval_ = 0;
  Result<TelemetryReading> reading_;
};

}  // namespace osml
