// Native histograms of Prometheus: sparse buckets whose bounds are powers of 2^(2^-schema). They exist in protobuf
// only.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "domain/exponential.h"

namespace osml {

namespace prometheus::wire {
class Histogram;
}  // namespace prometheus::wire

// Of a classic or a native one.
double count_of(const prometheus::wire::Histogram& message);
std::optional<double> sum_of(const prometheus::wire::Histogram& message);
// Whether it has native buckets, also where it has classic ones beside them.
bool is_native(const prometheus::wire::Histogram& message);
// In the unit of the service. Where the first and the last bucket are far apart, neighbours are joined until there are
// at most most_buckets of Exponential. Values below 0 count as zero. Error: custom buckets (schema -53), or what
// is no histogram.
Result<Exponential> native_of(const prometheus::wire::Histogram& message, const std::string& metric);

}  // namespace osml
