#include "telemetry/prometheus_protobuf.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "base/number.h"
#include "base/printable.h"
#include "domain/protobuf_fields.h"
#include "telemetry/classic_histogram.h"
#include "telemetry/classic_parts.h"
#include "telemetry/native_histogram.h"
#include "telemetry/prometheus.pb.h"

namespace osml {

namespace {

constexpr std::size_t longest_bound = 60;  // of what others wrote, in an error

Error broken_body() { return {ErrorKind::Io, "not Prometheus protobuf: the body is broken or was cut off"}; }

// What a MetricFamily says about its metrics; the names of the fields are those of prometheus.proto.
struct Family {
  std::string_view name;
  std::uint64_t type = prometheus::wire::COUNTER;
};

std::optional<Family> family_of(std::string_view bytes) {
  Family family;
  ProtobufFields message(bytes);
  while (const auto field = message.next()) {
    if (field->number == prometheus::wire::MetricFamily::kNameFieldNumber) family.name = field->bytes;
    if (field->number == prometheus::wire::MetricFamily::kTypeFieldNumber) family.type = field->value;
  }
  return message.broken() ? std::nullopt : std::optional(family);
}

// Text has a type for people only, so parts of a histogram may come with each of these.
bool is_of_single_values(std::uint64_t type) {
  return type == prometheus::wire::UNTYPED || type == prometheus::wire::COUNTER || type == prometheus::wire::GAUGE;
}

std::optional<double> single_value(const prometheus::wire::Metric& metric) {
  if (metric.has_untyped()) return metric.untyped().value();
  if (metric.has_counter()) return metric.counter().value();
  if (metric.has_gauge()) return metric.gauge().value();
  return std::nullopt;
}

std::string name_of_type(std::uint64_t type) {
  constexpr std::array<const char*, 6> names = {"counter", "gauge",     "summary",
                                                "untyped", "histogram", "gauge histogram"};
  return type < names.size() ? names.at(type) : std::to_string(type);
}

double cumulative_of(const prometheus::wire::Bucket& bucket) {
  return bucket.cumulative_count_float() > 0 ? bucket.cumulative_count_float()
                                             : static_cast<double>(bucket.cumulative_count());
}

Result<Histogram> classic_of(const prometheus::wire::Histogram& message, const std::string& metric) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Histogram made{{}, sum_of(message), if_measured(count_of(message))};
  made.buckets.reserve(static_cast<std::size_t>(message.bucket_size()) + 1);
  for (const auto& bucket : message.bucket()) made.buckets.push_back({bucket.upper_bound(), cumulative_of(bucket)});
  const bool whole = std::any_of(made.buckets.begin(), made.buckets.end(),
                                 [](const Bucket& bucket) { return bucket.upper == infinity; });
  // clients leave the last one out
  if (!whole) made.buckets.push_back({infinity, count_of(message)});
  const auto wrong = std::find_if_not(made.buckets.begin(), made.buckets.end(), is_usable);
  if (wrong != made.buckets.end()) {
    return unusable_bucket(metric, "le=" + format_number(wrong->upper) + " count=" + format_number(wrong->count));
  }
  if (Status usable = make_usable(made, metric); !usable) return usable.error();
  return made;
}

class Families {
 public:
  Families(const std::string& metric, const std::map<std::string, std::string>& labels, std::size_t most_series)
      : metric_(metric), wanted_(labels), most_series_(most_series), parts_(metric, labels, most_series) {}

  // A MetricFamily of the wanted name, or of a part of it.
  Status add(std::string_view bytes, const Family& family);
  Result<HistogramReading> take();

 private:
  // `part`: "_bucket", "_sum" or "_count" of a histogram in single values; empty where the series is a whole one.
  Status add_series(std::string_view bytes, std::string_view part);
  Status put(const std::string& series);

  const std::string& metric_;
  const std::map<std::string, std::string>& wanted_;
  std::size_t most_series_;
  std::size_t native_buckets_ = 0;
  bool seen_ = false;
  prometheus::wire::Metric message_;  // one for all series: it keeps its memory
  HistogramReading reading_;
  ClassicParts parts_;  // as a federation passes histograms on
};

Status Families::add(std::string_view bytes, const Family& family) {
  const bool single = is_of_single_values(family.type);
  const std::string_view part = single ? parts_.part_of(family.name) : std::string_view();
  if (part.empty() && family.name != metric_) return done();
  if (part.empty() && family.type != prometheus::wire::HISTOGRAM) {
    return Error{ErrorKind::Io, "the metric '" + metric_ + "' has the type '" + name_of_type(family.type) +
                                    "', expected a histogram whose counts only grow; check metric"};
  }
  ProtobufFields message(bytes);
  while (const auto field = message.next()) {
    if (field->number != prometheus::wire::MetricFamily::kMetricFieldNumber) continue;
    if (Status added = add_series(field->bytes, part); !added) return added;
  }
  return done();
}

Status Families::add_series(std::string_view bytes, std::string_view part) {
  if (bytes.size() > longest_series) {
    return Error{ErrorKind::Io, "a series of the histogram '" + metric_ + "' has " + std::to_string(bytes.size()) +
                                    " bytes, expected at most " + std::to_string(longest_series) +
                                    "; give the histogram fewer buckets"};
  }
  if (!message_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return broken_body();
  const auto value = single_value(message_);
  if (part.empty() ? !message_.has_histogram() : !value) return done();
  Labels labels;
  for (const auto& pair : message_.label()) labels[pair.name()] = pair.value();
  if (!part.empty()) {
    const auto bound = labels.find("le");
    const std::string le = bound == labels.end() ? "" : printable(bound->second, longest_bound);
    return parts_.add(part, labels, *value, "le=" + le + " count=" + format_number(*value));
  }
  seen_ = true;
  return carries(labels, wanted_) ? put(series_of(labels)) : done();
}

Status Families::put(const std::string& series) {
  if (reading_.classic.contains(series) || reading_.native.contains(series)) {
    return Error{ErrorKind::Io, "the histogram '" + metric_ +
                                    "' has a series twice, expected each set of labels once; correct the metrics of "
                                    "the service"};
  }
  if (reading_.classic.size() + reading_.native.size() == most_series_) return too_many_series(metric_, most_series_);
  if (!is_native(message_.histogram())) {
    auto made = classic_of(message_.histogram(), metric_);
    if (!made) return made.error();
    reading_.classic.emplace(series, std::move(*made));
    return done();
  }
  auto made = native_of(message_.histogram(), metric_);
  if (!made) return made.error();
  native_buckets_ += made->counts.size();
  if (native_buckets_ > most_native_buckets * most_series_) {
    return Error{ErrorKind::Io, "the series of the native histogram '" + metric_ + "' have more than " +
                                    std::to_string(most_native_buckets * most_series_) +
                                    " buckets together; select some of them with labels"};
  }
  reading_.native.emplace(series, std::move(*made));
  return done();
}

Result<HistogramReading> Families::take() {
  if (!reading_.classic.empty() || !reading_.native.empty()) return std::move(reading_);
  auto parts = parts_.take();
  if (!parts) return parts.error();
  if (!parts->empty()) return HistogramReading{std::move(*parts), {}};
  if (seen_ || parts_.seen()) return no_series_carries(metric_);
  return Error{ErrorKind::Io, "there is no histogram '" + metric_ + "'; check metric"};
}

}  // namespace

Result<HistogramReading> parse_families(std::string_view body, const std::string& metric,
                                        const std::map<std::string, std::string>& labels, std::size_t most_series) {
  Families families(metric, labels, most_series);
  while (!body.empty()) {
    const auto bytes = take_delimited(body);
    const auto family = bytes ? family_of(*bytes) : std::nullopt;
    if (!family) return broken_body();
    if (Status added = families.add(*bytes, *family); !added) return added.error();
  }
  return families.take();
}

}  // namespace osml
