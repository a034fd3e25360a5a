// The Prometheus text format, as far as one histogram needs it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "telemetry/histogram_series.h"

namespace osml {

// The series of the histogram `metric` that carry every label of `labels`. Error: the text is no Prometheus text, has
// no such histogram (the sentence names what is there instead), one that cannot be used or was cut off, or too many
// series.
Result<ClassicSeries> parse_histograms(std::string_view text, const std::string& metric,
                                       const std::map<std::string, std::string>& labels,
                                       std::size_t most_series = most_series_of_service);

}  // namespace osml
