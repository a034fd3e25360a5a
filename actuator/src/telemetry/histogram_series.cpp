#include "telemetry/histogram_series.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "domain/mixture.h"

namespace osml {

namespace {

std::size_t hash_of(const std::string& series) { return std::hash<std::string>{}(series); }

// As difference(), between readings of different zero buckets too: a client with too many buckets widens it.
std::optional<Exponential> gained_since(Exponential newer, Exponential older) {
  if (newer.zero_threshold != older.zero_threshold) {
    const int scale = std::min(newer.scale, older.scale);
    lower_scale(newer, scale);
    lower_scale(older, scale);
    widen_zero(older, newer.zero_threshold);
    widen_zero(newer, older.zero_threshold);
    widen_zero(older, newer.zero_threshold);  // where a bucket of the newer one widened it further
  }
  return difference(std::move(newer), std::move(older));
}

bool has_observations(const Exponential& histogram) {
  return std::accumulate(histogram.counts.begin(), histogram.counts.end(), histogram.zero_count) > 0;
}

std::optional<Histogram> gained_since(const Histogram& newer, const Histogram& older) {
  return difference(newer, older);
}

double total_of(const Histogram& histogram) { return histogram.buckets.back().count; }
double total_of(const Exponential& histogram) { return histogram.count; }

// None where the reading of the series is a base.
template <class Value>
std::optional<Value> gain_of(const std::pair<const std::string, Value>& now, const std::map<std::string, Value>& older,
                             const KnownSeries& known) {
  const auto before = older.find(now.first);
  if (before == older.end()) {
    return known.contains(hash_of(now.first)) ? std::nullopt : std::optional(now.second);
  }
  auto gained = gained_since(now.second, before->second);
  if (gained || total_of(now.second) >= total_of(before->second)) return gained;
  return now.second;
}

// False where there are too many different sets of bounds.
bool add_classic(std::vector<Histogram>& parts, const ClassicSeries& newer, const ClassicSeries& older,
                 const KnownSeries& known) {
  return std::all_of(newer.begin(), newer.end(), [&](const auto& now) {
    const auto gained = gain_of(now, older, known);
    return !gained || total_of(*gained) == 0 || add_part(parts, *gained);
  });
}

std::optional<Exponential> native_gain(const NativeSeries& newer, const NativeSeries& older, const KnownSeries& known) {
  std::optional<Exponential> all;
  for (const auto& now : newer) {
    auto gained = gain_of(now, older, known);
    if (!gained || !has_observations(*gained)) continue;
    if (all) {
      add(*all, std::move(*gained));
    } else {
      all = std::move(gained);
    }
  }
  return all;
}

Result<Histogram> together(const std::vector<Histogram>& parts, bool fit) {
  if (fit) return parts.empty() ? Histogram{} : mix(parts);
  return Error{ErrorKind::Io, "the series of the histogram have more than " + std::to_string(most_shapes) +
                                  " different sets of bounds; select some of them with labels"};
}

}  // namespace

bool carries(const Labels& labels, const std::map<std::string, std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&labels](const auto& label) {
    const auto found = labels.find(label.first);
    return found != labels.end() && found->second == label.second;
  });
}

std::string series_of(const Labels& labels) {
  std::string series;
  for (const auto& [name, value] : labels) {
    // with its length, so that no value ends where another one begins
    if (name != "le") series.append(name).append("=").append(std::to_string(value.size())).append(":").append(value);
  }
  return series;
}

Error too_many_series(const std::string& metric, std::size_t most_series) {
  return {ErrorKind::Io, "the histogram '" + metric + "' has more than " + std::to_string(most_series) +
                             " series; select some of them with labels"};
}

Error no_series_carries(const std::string& metric) {
  return {ErrorKind::Io, "no series of the histogram '" + metric + "' has all configured labels; check labels"};
}

void note_series(KnownSeries& known, const HistogramReading& reading, std::size_t most_series) {
  if (known.size() > 4 * most_series) known.clear();
  for (const auto& [series, value] : reading.classic) known.insert(hash_of(series));
  for (const auto& [series, value] : reading.native) known.insert(hash_of(series));
}

Result<Histogram> gained_between(const HistogramReading& newer, const HistogramReading& older,
                                 const KnownSeries& known) {
  std::vector<Histogram> parts;
  bool fit = add_classic(parts, newer.classic, older.classic, known);
  if (const auto native = native_gain(newer.native, older.native, known)) {
    Histogram part = as_histogram(*native);
    part.exponential = true;
    fit = fit && add_part(parts, part);
  }
  return together(parts, fit);
}

}  // namespace osml
