#include "telemetry/histogram_series.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "domain/mixture.h"

namespace osml {

namespace {

// False where there are too many different sets of bounds.
bool add_classic(std::vector<Histogram>& parts, const ClassicSeries& newer, const ClassicSeries& older) {
  for (const auto& [series, now] : newer) {
    const auto before = older.find(series);
    const auto grown = before == older.end() ? std::nullopt : difference(now, before->second);
    const Histogram& gained = grown ? *grown : now;
    if (gained.buckets.back().count > 0 && !add_part(parts, gained)) return false;
  }
  return true;
}

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

std::optional<Exponential> native_gain(const NativeSeries& newer, const NativeSeries& older) {
  std::optional<Exponential> all;
  for (const auto& [series, now] : newer) {
    const auto before = older.find(series);
    auto gained = before == older.end() ? std::nullopt : gained_since(now, before->second);
    if (!gained) gained = now;
    if (!has_observations(*gained)) continue;
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

Result<Histogram> gained_between(const ClassicSeries& newer, const ClassicSeries& older) {
  std::vector<Histogram> parts;
  const bool fit = add_classic(parts, newer, older);
  return together(parts, fit);
}

Result<Histogram> gained_between(const HistogramReading& newer, const HistogramReading& older) {
  std::vector<Histogram> parts;
  bool fit = add_classic(parts, newer.classic, older.classic);
  if (const auto native = native_gain(newer.native, older.native)) {
    Histogram part = as_histogram(*native);
    part.exponential = true;
    fit = fit && add_part(parts, part);
  }
  return together(parts, fit);
}

}  // namespace osml
