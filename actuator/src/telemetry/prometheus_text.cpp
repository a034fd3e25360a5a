#include "telemetry/prometheus_text.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>

#include "base/files.h"
#include "telemetry/classic_histogram.h"

namespace osml {
namespace {

struct Sample {
  std::string_view name;
  Labels labels;
  double value = 0;
};

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
}

std::string_view take_name(std::string_view& rest) {
  std::size_t length = 0;
  while (length < rest.size() && is_name_char(rest[length])) ++length;
  const std::string_view name = rest.substr(0, length);
  rest.remove_prefix(length);
  return name;
}

bool take(std::string_view& rest, char expected) {
  rest = trim(rest);
  if (rest.empty() || rest.front() != expected) return false;
  rest.remove_prefix(1);
  return true;
}

// "value" with \\, \" and \n escaped.
std::optional<std::string> take_quoted(std::string_view& rest) {
  if (!take(rest, '"')) return std::nullopt;
  std::string value;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      rest.remove_prefix(i + 1);
      return value;
    }
    if (rest[i] == '\\' && i + 1 < rest.size()) {
      ++i;
      value += rest[i] == 'n' ? '\n' : rest[i];
    } else {
      value += rest[i];
    }
  }
  return std::nullopt;
}

bool take_labels(std::string_view& rest, Sample& sample) {
  if (!take(rest, '{')) return true;
  while (!take(rest, '}')) {
    // quotes: a name with other letters than ours
    const auto name = rest.starts_with('"') ? take_quoted(rest) : std::optional<std::string>(take_name(rest));
    if (!name || name->empty() || !take(rest, '=')) return false;
    auto value = take_quoted(rest);
    if (!value) return false;
    sample.labels[*name] = std::move(*value);
    take(rest, ',');
  }
  return true;
}

// strtod knows +Inf and NaN, which from_chars spells differently.
std::optional<double> to_number(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (copy.empty() || end != copy.c_str() + copy.size()) return std::nullopt;
  return value;
}

std::optional<Sample> parse_sample(std::string_view line) {
  Sample sample;
  sample.name = take_name(line);
  if (sample.name.empty() || !take_labels(line, sample)) return std::nullopt;
  line = trim(line);
  const auto value = to_number(line.substr(0, line.find_first_of(" \t")));  // a time stamp may follow
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

std::string start_of(std::string_view text) {
  constexpr std::size_t longest = 60;
  return std::string(text.substr(0, std::min(longest, text.find('\n'))));
}

// What a line says of the histogram; nothing where it is about something else.
Result<std::optional<Sample>> sample_of(std::string_view line, const std::string& metric) {
  const std::optional<Sample> nothing;
  // a name in quotes has other letters than ours
  if (line.empty() || line.front() == '#' || line.front() == '{') return nothing;
  if (!is_name_char(line.front())) {
    return Error{ErrorKind::Io, "not Prometheus text: a line begins with '" + start_of(line) + "'"};
  }
  // most lines are about other metrics: skip them before parsing
  if (!line.starts_with(metric)) return nothing;
  const auto sample = parse_sample(line);
  if (!sample) return Error{ErrorKind::Io, "not Prometheus text: cannot parse '" + start_of(line) + "'"};
  const std::string_view part = sample->name.substr(metric.size());
  return part == "_bucket" || part == "_sum" || part == "_count" ? sample : nothing;
}

Error none_found(const std::string& metric, bool name_seen) {
  if (name_seen) return no_series_carries(metric);
  return {ErrorKind::Io, "there is no histogram '" + metric + "' (no " + metric + "_bucket); check metric"};
}

// NaN where there is none.
double bound_of(const Sample& sample) {
  const auto label = sample.labels.find("le");
  const auto bound = label == sample.labels.end() ? std::nullopt : to_number(label->second);
  return bound.value_or(std::numeric_limits<double>::quiet_NaN());
}

// One sample into its series.
Status put(const Sample& sample, const std::string& metric, std::string_view line, Histogram& series) {
  if (sample.name.ends_with("_sum")) {
    series.sum = if_measured(sample.value);
    return done();
  }
  if (sample.name.ends_with("_count")) {
    series.count = if_measured(sample.value);
    return done();
  }
  const Bucket bucket{bound_of(sample), sample.value};
  if (!is_usable(bucket)) return unusable_bucket(metric, start_of(line));
  series.buckets.push_back(bucket);
  return done();
}

}  // namespace

Result<ClassicSeries> parse_histograms(std::string_view text, const std::string& metric,
                                       const std::map<std::string, std::string>& labels, std::size_t most_series) {
  ClassicSeries found;
  bool name_seen = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const auto read = sample_of(line, metric);
    if (!read) return read.error();
    if (!*read) continue;
    const Sample& sample = **read;
    name_seen = name_seen || sample.name.ends_with("_bucket");
    if (!carries(sample.labels, labels)) continue;
    Histogram& series = found[series_of(sample.labels)];
    if (found.size() > most_series) return too_many_series(metric, most_series);
    if (Status added = put(sample, metric, line, series); !added) return added.error();
  }
  std::erase_if(found, [](const auto& one) { return one.second.buckets.empty(); });
  if (found.empty()) return none_found(metric, name_seen);
  for (auto& [labels_of_series, series] : found) {
    if (Status usable = make_usable(series, metric); !usable) return usable.error();
  }
  return found;
}

}  // namespace osml
