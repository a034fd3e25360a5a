// Classic histograms as services expose them, text or protobuf, made such that they can be used.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "domain/histogram.h"

namespace osml {

// A sum or count; one that is not finite or below 0 is missing.
std::optional<double> if_measured(double value);
// Whether a bucket has the upper bound of a latency, in whatever unit, and a count. NaN is neither.
bool is_usable(const Bucket& bucket);
// `shown`: the bucket, as the service says it.
Error unusable_bucket(const std::string& metric, std::string_view shown);
// Sorts usable buckets and raises counts that fall. Error: a bound twice, or no finite bound above 0.
Status make_usable(Histogram& series, const std::string& metric);

}  // namespace osml
