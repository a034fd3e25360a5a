// The Prometheus text format, as far as one histogram needs it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "domain/histogram.h"

namespace osml {

// The series of one histogram, by their labels without le. Each has ascending buckets with counts that ascend, and at
// least one finite bound above 0. A sum or count that is not finite or below 0 is missing.
using HistogramSeries = std::map<std::string, Histogram>;

// Series of one histogram that are kept: what a pod answers must not fill the agent's memory.
constexpr std::size_t most_series = 4096;

// The series of the histogram `metric` that carry every label of `labels`. Error: the text is no Prometheus text, has
// no such histogram (the sentence names what is there instead), or one that cannot be used.
Result<HistogramSeries> parse_histograms(std::string_view text, const std::string& metric,
                                         const std::map<std::string, std::string>& labels);

// What all series together gained since the older reading, as one histogram without buckets where nothing was gained.
// A series that was reset or is new counts from zero. Error: too many different sets of bounds.
Result<Histogram> gained_between(const HistogramSeries& newer, const HistogramSeries& older);

}  // namespace osml
