#include "telemetry/native_histogram.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "base/number.h"
#include "telemetry/classic_histogram.h"
#include "telemetry/prometheus.pb.h"

namespace osml {

namespace {

using prometheus::wire::BucketSpan;
using HistogramMessage = prometheus::wire::Histogram;

constexpr int least_schema = -4;
constexpr int most_schema = 8;

struct Populated {
  std::int64_t index;  // as Exponential counts them
  double count;
};

Error unusable_native(const std::string& metric, const std::string& what) {
  return {ErrorKind::Io, "the native histogram '" + metric + "' has " + what};
}

// False for NaN.
bool is_between_0_and(double most, double value) { return value >= 0 && value <= most; }

bool is_count(double value) { return is_between_0_and(1e15, value); }

double zero_count_of(const HistogramMessage& message) {
  return message.zero_count_float() > 0 ? message.zero_count_float() : static_cast<double>(message.zero_count());
}

// Of each bucket in the spans of one sign. None where one of them is no count, or all together and the `others`.
template <class Counts, class Deltas>
std::optional<std::vector<double>> bucket_counts_of(const Counts& floats, const Deltas& deltas, double others) {
  std::vector<double> counts(floats.begin(), floats.end());
  if (counts.empty()) {
    counts.reserve(static_cast<std::size_t>(deltas.size()));
    double count = 0;  // exact, as long as it is a count
    for (const std::int64_t delta : deltas) counts.push_back(count += static_cast<double>(delta));
  }
  const bool usable = std::all_of(counts.begin(), counts.end(), is_count) &&
                      is_count(std::accumulate(counts.begin(), counts.end(), others));
  return usable ? std::optional(std::move(counts)) : std::nullopt;
}

// Where an observation counts that is more than 2^64 or less than 2^-64: in the last bucket, or the first one. One
// latency of +Inf, which clients count above all numbers, shall not make the buckets of all others wide.
std::int64_t nearest_bucket(std::int64_t index, int schema) {
  const std::int64_t end = schema < 0 ? 64 >> -schema : 64 << schema;
  return std::clamp(index, -end, end - 1);
}

// The buckets with observations, ascending. None where spans and counts do not fit together.
std::optional<std::vector<Populated>> populated_of(const HistogramMessage& message, const std::vector<double>& counts) {
  std::vector<Populated> found;
  std::size_t next = 0;
  std::int64_t index = -1;  // Prometheus numbers a bucket by its upper bound, Exponential by its lower one
  for (int i = 0; i < message.positive_span_size(); ++i) {
    const BucketSpan& span = message.positive_span(i);
    if ((i > 0 && span.offset() < 0) || span.length() > counts.size() - next) return std::nullopt;
    index += span.offset();
    for (const std::size_t end = next + span.length(); next < end; ++next, ++index) {
      if (counts[next] > 0) found.push_back({nearest_bucket(index, message.schema()), counts[next]});
    }
  }
  return next == counts.size() ? std::optional(std::move(found)) : std::nullopt;
}

void fill_buckets(Exponential& made, const std::vector<Populated>& buckets) {
  if (buckets.empty()) return;
  const std::int64_t first = buckets.front().index;
  const std::int64_t last = buckets.back().index;
  int by = 0;
  while ((last >> by) - (first >> by) >= Exponential::most_buckets) ++by;
  made.scale -= by;
  made.offset = first >> by;
  made.counts.resize(static_cast<std::size_t>((last >> by) - made.offset + 1));
  for (const auto& [index, count] : buckets)
    made.counts[static_cast<std::size_t>((index >> by) - made.offset)] += count;
}

}  // namespace

double count_of(const HistogramMessage& message) {
  return message.sample_count_float() > 0 ? message.sample_count_float() : static_cast<double>(message.sample_count());
}

std::optional<double> sum_of(const HistogramMessage& message) {
  return message.has_sample_sum() ? if_measured(message.sample_sum()) : std::nullopt;
}

// As Prometheus tells them apart. Clients send an empty span where there is nothing else to send.
bool is_native(const HistogramMessage& message) {
  return message.positive_span_size() > 0 || message.negative_span_size() > 0 || message.zero_threshold() > 0 ||
         zero_count_of(message) > 0;
}

Result<Exponential> native_of(const HistogramMessage& message, const std::string& metric) {
  const int schema = message.schema();
  if (schema < least_schema || schema > most_schema) {
    return unusable_native(
        metric, "the schema " + std::to_string(schema) + ", expected -4 to 8; give the histogram exponential buckets");
  }
  constexpr double most_threshold = 1e18;
  if (!is_count(count_of(message)) || !is_count(zero_count_of(message)) ||
      !is_between_0_and(most_threshold, message.zero_threshold())) {
    return unusable_native(metric, "the count " + format_number(count_of(message)) + ", the zero_count " +
                                       format_number(zero_count_of(message)) + " and the zero_threshold " +
                                       format_number(message.zero_threshold()) +
                                       ", expected counts from 0 to 1e15 and a threshold from 0 to 1e18; correct the "
                                       "metrics of the service");
  }
  double zero_count = zero_count_of(message);
  const auto negative = bucket_counts_of(message.negative_count(), message.negative_delta(), zero_count);
  // A clock that was set back makes latencies below 0: they took no time.
  if (negative) zero_count = std::accumulate(negative->begin(), negative->end(), zero_count);
  const auto counts = bucket_counts_of(message.positive_count(), message.positive_delta(), zero_count);
  const auto buckets = negative && counts ? populated_of(message, *counts) : std::nullopt;
  if (!buckets) {
    return unusable_native(metric,
                           "spans and counts that do not fit together, expected one count for each bucket of ascending "
                           "spans, and 0 to 1e15 observations; correct the metrics of the service");
  }
  Exponential made;
  made.scale = schema;
  made.zero_count = zero_count;
  made.zero_threshold = message.zero_threshold();
  made.count = count_of(message);
  made.sum = sum_of(message);
  fill_buckets(made, *buckets);
  return made;
}

}  // namespace osml
