#include "telemetry/prometheus_text.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/files.h"

namespace osml {

namespace {

struct Sample {
  std::string_view name;
  std::map<std::string, std::string, std::less<>> labels;
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
    const std::string name(take_name(rest));
    if (name.empty() || !take(rest, '=')) return false;
    auto value = take_quoted(rest);
    if (!value) return false;
    sample.labels[name] = std::move(*value);
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
  const auto value = to_number(line.substr(0, line.find(' ')));  // a time stamp may follow
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

bool carries(const Sample& sample, const std::map<std::string, std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
    const auto found = sample.labels.find(label.first);
    return found != sample.labels.end() && found->second == label.second;
  });
}

// Adds one sample of the metric; `buckets` by upper bound, since several series may be summed.
bool add(const Sample& sample, std::string_view part, std::map<double, double>& buckets, Histogram& histogram) {
  if (part == "_sum") {
    histogram.sum = histogram.sum.value_or(0) + sample.value;
  } else if (part == "_count") {
    histogram.count = histogram.count.value_or(0) + sample.value;
  } else if (part == "_bucket") {
    const auto bound = sample.labels.find("le");
    const auto upper = bound == sample.labels.end() ? std::nullopt : to_number(bound->second);
    if (!upper || std::isnan(*upper) || *upper == -HUGE_VAL) return false;
    buckets[*upper] += sample.value;
  }
  return true;
}

std::string start_of(std::string_view text) {
  constexpr std::size_t longest = 60;
  return std::string(text.substr(0, std::min(longest, text.find('\n'))));
}

Error none_found(const std::string& metric, bool name_seen) {
  if (name_seen) {
    return {ErrorKind::Io, "no series of the histogram '" + metric + "' has all configured labels; check labels"};
  }
  return {ErrorKind::Io, "there is no histogram '" + metric + "' (no " + metric + "_bucket); check metric"};
}

}  // namespace

Result<Histogram> parse_histogram(std::string_view text, const std::string& metric,
                                  const std::map<std::string, std::string>& labels) {
  Histogram histogram;
  std::map<double, double> buckets;
  bool name_seen = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    if (!is_name_char(line.front())) {
      return Error{ErrorKind::Io, "not Prometheus text: a line begins with '" + start_of(line) + "'"};
    }
    // most lines are about other metrics: skip them before parsing
    if (line.substr(0, metric.size()) != metric) continue;
    const auto sample = parse_sample(line);
    if (!sample) return Error{ErrorKind::Io, "not Prometheus text: cannot parse '" + start_of(line) + "'"};
    const std::string_view part = sample->name.substr(metric.size());
    if (part == "_bucket") name_seen = true;
    if (!carries(*sample, labels)) continue;
    if (!add(*sample, part, buckets, histogram)) {
      return Error{ErrorKind::Io,
                   "a bucket of '" + metric + "' has no number in its label le: '" + start_of(line) + "'"};
    }
  }
  if (buckets.empty()) return none_found(metric, name_seen);
  for (const auto& [upper, count] : buckets) {
    // summed over series, so it may also have overflowed; written so that NaN fails
    if (!(count >= 0 && std::isfinite(count))) {
      return Error{ErrorKind::Io, "a bucket of '" + metric + "' has no count of 0 or more"};
    }
    histogram.buckets.push_back({upper, count});
  }
  if (histogram.sum && !std::isfinite(*histogram.sum)) histogram.sum.reset();
  if (histogram.count && !std::isfinite(*histogram.count)) histogram.count.reset();
  return histogram;
}

}  // namespace osml
