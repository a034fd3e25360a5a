#include "telemetry/exposition.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/files.h"
#include "telemetry/prometheus_protobuf.h"
#include "telemetry/prometheus_text.h"

namespace osml {

namespace {

// A media type is the same in small and capital letters; parameters follow it.
bool is_protobuf(std::string_view content_type) {
  constexpr std::string_view protobuf = "application/vnd.google.protobuf";
  const std::string_view type = trim(content_type.substr(0, content_type.find(';')));
  return std::equal(type.begin(), type.end(), protobuf.begin(), protobuf.end(),
                    [](char one, char small) { return std::tolower(static_cast<unsigned char>(one)) == small; });
}

}  // namespace

Result<HistogramReading> read_exposition(const HttpAnswer& answer, const PrometheusSource& source) {
  const std::size_t most_series = source.of_pod ? most_series_of_pod : most_series_of_service;
  if (is_protobuf(answer.content_type)) return parse_families(answer.body, source.metric, source.labels, most_series);
  auto classic = parse_histograms(answer.body, source.metric, source.labels, most_series);
  if (!classic) return classic.error();
  return HistogramReading{std::move(*classic), {}};
}

}  // namespace osml
