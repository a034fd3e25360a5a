// What several histograms gained, together: pods of a service, its routes, its status codes.
#pragma once

#include <vector>

#include "domain/histogram.h"

namespace osml {

// Different sets of bounds that are told apart.
constexpr std::size_t most_shapes = 16;

// Adds observations to the part that has the same bounds, or as a part of its own. False where that is one too many:
// nothing is added.
bool add_part(std::vector<Histogram>& parts, const Histogram& gained);

// One histogram of the observations of several, whatever their bounds: in each of them observations lie evenly between
// two bounds, and those beyond its last finite bound have that bound, as quantile() has it. So a percentile of the
// result is that of all observations under that rule. Its sum and count are those of all, missing where one lacks it.
Histogram mix(const std::vector<Histogram>& parts);

}  // namespace osml
