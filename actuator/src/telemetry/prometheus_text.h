// The Prometheus text format, as far as one histogram needs it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "domain/histogram.h"

namespace osml {

// The histogram `metric` summed over all series that carry every label of `labels`. Error: the text is no Prometheus
// text, or has no such histogram (the sentence names what is there instead).
Result<Histogram> parse_histogram(std::string_view text, const std::string& metric,
                                  const std::map<std::string, std::string>& labels);

}  // namespace osml
