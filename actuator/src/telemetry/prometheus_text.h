// The Prometheus text format, as far as one histogram needs it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "domain/histogram.h"

namespace osml {

// The series of one histogram, by their labels without le. Each has ascending buckets with counts that do not fall, and
// at least one finite bound above 0. A sum or count that is not finite or below 0 is missing.
using HistogramSeries = std::map<std::string, Histogram>;

// Series of one histogram that are kept. Pods are many, and what they answer must not fill the agent's memory.
constexpr std::size_t most_series_of_service = 4096;
constexpr std::size_t most_series_of_pod = 256;

// The series of the histogram `metric` that carry every label of `labels`. Error: the text is no Prometheus text, has
// no such histogram (the sentence names what is there instead), one that cannot be used, or too many series.
Result<HistogramSeries> parse_histograms(std::string_view text, const std::string& metric,
                                         const std::map<std::string, std::string>& labels,
                                         std::size_t most_series = most_series_of_service);

// What all series together gained since the older reading, as one histogram without buckets where nothing was gained.
// A series that was reset or is new counts from zero. Error: too many different sets of bounds.
Result<Histogram> gained_between(const HistogramSeries& newer, const HistogramSeries& older);

}  // namespace osml
