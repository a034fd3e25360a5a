// A telemetry file: what the lines of an interval say, and how old that is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "domain/interval.h"
#include "telemetry/line_follower.h"
#include "telemetry/telemetry_line.h"

namespace osml {

struct TelemetryReading {
  TelemetrySample sample;
  double age_s = 0;  // node time since a line was written last
  // What the file says of other intervals and not of this one. Nobody else's count takes its place: a series is of one
  // source.
  std::vector<Amount> silent = {};
};

class TelemetryFile {
 public:
  // `time_scale`: node time per wall time, because the file's age is wall time.
  TelemetryFile(fs::path path, double max_age_s, double time_scale);

  // The lines of this interval as one sample, or the newest line where none was added but it is not stale. The error
  // is the sentence for Observation.missing. Reads once per interval, however often it is called.
  const Result<TelemetryReading>& read(const Interval& interval);
  // How many looks have brought lines.
  [[nodiscard]] std::uint64_t news() const { return news_; }
  // What its newest line says of an interval, also where it is too old by now.
  [[nodiscard]] std::vector<Amount> amounts() const { return last_ ? amounts_of(*last_) : std::vector<Amount>{}; }
  // For a service that was away: what was there up to then is not its own. `known`: news() of then.
  Result<TelemetryReading> read_since(const Interval& interval, std::optional<std::uint64_t> known);

 private:
  Result<TelemetryReading> refresh(const Interval& interval);
  // Node time since a line was written last; `fresh`: there are new ones.
  [[nodiscard]] double age_s(const timespec& written, bool fresh, double now_s);

  fs::path path_;
  double max_age_s_;
  double time_scale_;
  LineFollower follower_;
  std::optional<TelemetrySample> last_;
  std::optional<double> line_s_;  // node time of the newest line
  std::uint64_t news_ = 0;
  std::uint64_t interval_ = 0;
  Result<TelemetryReading> reading_;
};

}  // namespace osml
