// A classic histogram that comes in parts, as text has it: X_bucket with the label le, X_sum and X_count.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "telemetry/histogram_series.h"

namespace osml {

// As Prometheus writes numbers, with +Inf and NaN; none where it is no number.
std::optional<double> number_of(std::string_view text);

class ClassicParts {
 public:
  // `metric` and `labels` must live longer.
  ClassicParts(const std::string& metric, const std::map<std::string, std::string>& labels, std::size_t most_series)
      : metric_(&metric), wanted_(&labels), most_series_(most_series) {}

  // What comes behind the name of the histogram in the name of a part; empty where this is no part of it.
  [[nodiscard]] std::string_view part_of(std::string_view name) const;
  // One part of one series. `shown`: what an error says of a bucket.
  Status add(std::string_view part, const Labels& labels, double value, std::string_view shown);
  // There was a bucket, of whatever series.
  [[nodiscard]] bool seen() const { return seen_; }
  // The series with buckets, made usable. None of them is no error.
  Result<ClassicSeries> take();

 private:
  const std::string* metric_;
  const std::map<std::string, std::string>* wanted_;
  std::size_t most_series_;
  bool seen_ = false;
  ClassicSeries found_;
};

}  // namespace osml
