// The series of one histogram, whichever format they came in, and what they gained together.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/result.h"
#include "domain/exponential.h"
#include "domain/histogram.h"

namespace osml {

// By their labels without le. Each has ascending buckets with counts that do not fall, and at least one finite bound
// above 0. A sum or count that is not finite or below 0 is missing.
using ClassicSeries = std::map<std::string, Histogram>;
// By their labels. Observations below 0 are counted as zero.
using NativeSeries = std::map<std::string, Exponential>;

// No series is in both.
struct HistogramReading {
  ClassicSeries classic;
  NativeSeries native;
};

// Series of one histogram that are kept. Pods are many, and what they answer must not fill the agent's memory.
constexpr std::size_t most_series_of_service = 4096;
constexpr std::size_t most_series_of_pod = 256;

using Labels = std::map<std::string, std::string, std::less<>>;

bool carries(const Labels& labels, const std::map<std::string, std::string>& wanted);
// The key of a series. No two sets of labels have the same.
std::string series_of(const Labels& labels);

Error too_many_series(const std::string& metric, std::size_t most_series);
Error no_series_carries(const std::string& metric);

// Hashes of the keys of series that were there once. Two with the same hash cost the later one its first reading.
using KnownSeries = std::set<std::size_t>;
// Adds those of a reading. Of more than four times `most_series` all others are forgotten.
void note_series(KnownSeries& known, const HistogramReading& reading, std::size_t most_series);

// What all series together gained since the older reading, as one histogram without buckets where nothing was gained.
// A series that is new, or whose total fell (a reset), counts from zero. One that is back, or that cannot be compared,
// is a base: its total is not of this interval. Error: too many different sets of bounds.
// What native ones gained is one part of the whole, however many bounds they have. Classic ones beside them make it
// linear inside of a bucket.
Result<Histogram> gained_between(const HistogramReading& newer, const HistogramReading& older,
                                 const KnownSeries& known = {});

}  // namespace osml
