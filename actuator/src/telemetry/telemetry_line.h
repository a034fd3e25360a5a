// One line of a telemetry file: what a service, its load generator or a virtual node says about one interval.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "domain/types.h"

namespace osml {

struct TelemetrySample {
  Latency latency;                      // age_s is not set
  Counters counters;                    // only keys that the line has
  std::optional<double> length_s = {};  // that its amounts are of
};

// None where the line is no JSON object. A key that is null, negative or no number is missing; unknown keys are
// ignored.
std::optional<TelemetrySample> parse_telemetry_line(std::string_view text);

// Several lines of one interval as one. Means are weighted by samples (a line without samples weighs one), request
// rates averaged, samples and amounts of counters added (lengths too, where all lines have one), all other counters
// taken from the newest line. A percentile of a mixture lies between the percentiles of its parts; we take those of the
// line with most samples (the newest of equals), so that a nearly idle slice of time does not decide. `lines` is not
// empty.
TelemetrySample combine(const std::vector<TelemetrySample>& lines);

// A counter that is of a time, not of a moment.
using Amount = std::optional<double> Counters::*;
// What a line says of an interval that had none: an amount was of the interval before. Removes all amounts that the
// sample has, and tells which.
std::vector<Amount> take_amounts(TelemetrySample& sample);
// The amounts that a sample has.
std::vector<Amount> amounts_of(const TelemetrySample& sample);
// Brings amounts of another length to that of the interval: writer and agent each have a clock of their own, so a turn
// has no line and the next one two. A sample that does not say its length stays as it is.
void fit_amounts(TelemetrySample& sample, double interval_s);

}  // namespace osml
