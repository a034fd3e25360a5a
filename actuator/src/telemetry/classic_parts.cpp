#include "telemetry/classic_parts.h"

#include <cstdlib>
#include <limits>
#include <utility>

#include "telemetry/classic_histogram.h"

namespace osml {

namespace {

// NaN where there is none.
double bound_in(const Labels& labels) {
  const auto label = labels.find("le");
  const auto bound = label == labels.end() ? std::nullopt : number_of(label->second);
  return bound.value_or(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

// strtod knows +Inf and NaN, which from_chars spells differently.
std::optional<double> number_of(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (copy.empty() || end != copy.c_str() + copy.size()) return std::nullopt;
  return value;
}

std::string_view ClassicParts::part_of(std::string_view name) const {
  if (!name.starts_with(*metric_)) return {};
  const std::string_view part = name.substr(metric_->size());
  return part == "_bucket" || part == "_sum" || part == "_count" ? part : std::string_view();
}

Status ClassicParts::add(std::string_view part, const Labels& labels, double value, std::string_view shown) {
  seen_ = seen_ || part == "_bucket";
  if (!carries(labels, *wanted_)) return done();
  Histogram& series = found_[series_of(labels)];
  if (found_.size() > most_series_) return too_many_series(*metric_, most_series_);
  if (part == "_sum") {
    series.sum = if_measured(value);
  } else if (part == "_count") {
    series.count = if_measured(value);
  } else {
    const Bucket bucket{bound_in(labels), value};
    if (!is_usable(bucket)) return unusable_bucket(*metric_, shown);
    series.buckets.push_back(bucket);
  }
  return done();
}

Result<ClassicSeries> ClassicParts::take() {
  std::erase_if(found_, [](const auto& one) { return one.second.buckets.empty(); });
  for (auto& [labels, series] : found_) {
    if (Status usable = make_usable(series, *metric_); !usable) return usable.error();
  }
  return std::move(found_);
}

}  // namespace osml
