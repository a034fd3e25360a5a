#include "telemetry/prometheus_text.h"

#include <algorithm>
#include <optional>

#include "base/files.h"
#include "base/printable.h"
#include "telemetry/classic_parts.h"

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

std::optional<Sample> parse_sample(std::string_view line) {
  Sample sample;
  sample.name = take_name(line);
  if (sample.name.empty() || !take_labels(line, sample)) return std::nullopt;
  line = trim(line);
  const auto value = number_of(line.substr(0, line.find_first_of(" \t")));  // a time stamp may follow
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

std::string start_of(std::string_view text) {
  constexpr std::size_t longest = 60;
  return printable(text.substr(0, text.find('\n')), longest);
}

// A sample whose name begins with that of the histogram; nothing where the line is about something else.
Result<std::optional<Sample>> sample_of(std::string_view line, const std::string& metric) {
  const std::optional<Sample> nothing;
  // a name in quotes has other letters than ours
  if (line.empty() || line.front() == '#' || line.front() == '{') return nothing;
  if (!is_name_char(line.front())) {
    return Error{ErrorKind::Io, "not Prometheus text: a line begins with '" + start_of(line) + "'"};
  }
  // most lines are about other metrics: skip them before parsing
  if (!line.starts_with(metric)) return nothing;
  auto sample = parse_sample(line);
  if (!sample) return Error{ErrorKind::Io, "not Prometheus text: cannot parse '" + start_of(line) + "'"};
  return sample;
}

Error none_found(const std::string& metric, bool name_seen) {
  if (name_seen) return no_series_carries(metric);
  return {ErrorKind::Io, "there is no histogram '" + metric + "' (no " + metric + "_bucket); check metric"};
}

}  // namespace

Result<ClassicSeries> parse_histograms(std::string_view text, const std::string& metric,
                                       const std::map<std::string, std::string>& labels, std::size_t most_series) {
  ClassicParts parts(metric, labels, most_series);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const auto sample = sample_of(line, metric);
    if (!sample) return sample.error();
    const std::string_view part = *sample ? parts.part_of((*sample)->name) : std::string_view();
    if (part.empty()) continue;
    // Half a number is a number, too.
    if (end == std::string_view::npos) {
      return Error{ErrorKind::Io, "the body was cut off: its last line is '" + start_of(line) + "', without an end"};
    }
    if (Status added = parts.add(part, (*sample)->labels, (*sample)->value, start_of(line)); !added)
      return added.error();
  }
  auto found = parts.take();
  if (found && found->empty()) return none_found(metric, parts.seen());
  return found;
}

}  // namespace osml
