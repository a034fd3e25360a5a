// Points are parsed by generated code, one at a time. What stands around them is walked over and never held: two bytes
// of an empty message would become an object of a hundred.
#include "base/number.h"
#include "domain/protobuf_fields.h"
#include "otlp.pb.h"
#include "otlp/gather.h"
#include "otlp/wire.h"

namespace osml::latency::otlp {

namespace {

using Field = ProtobufField;

// Field numbers of the messages that are walked over; the test of otlp.proto compares them too.
namespace field {
constexpr int request_resource_metrics = 1;
constexpr int resource_metrics_resource = 1;
constexpr int resource_metrics_scope_metrics = 2;
constexpr int scope_metrics_scope = 1;
constexpr int scope_metrics_metrics = 2;
constexpr int metric_name = 1;
constexpr int metric_unit = 3;
constexpr int metric_gauge = 5;
constexpr int metric_sum = 7;
constexpr int metric_histogram = 9;
constexpr int metric_exponential_histogram = 10;
constexpr int metric_summary = 11;
constexpr int data_points = 1;
constexpr int aggregation_temporality = 2;
}  // namespace field

// What went wrong; kept until the walk is over, since a walk only knows that it shall stop.
class Walk {
 public:
  explicit Walk(const Selection& selection) : gather_(selection) {}
  Result<Export> request(std::string_view bytes);

 private:
  // Hands over each field until one of them stops the walk. False there, and where the bytes are no message.
  template <class Visit>
  bool each(std::string_view bytes, Visit&& visit);
  // The last field with this number; empty where there is none.
  bool last(std::string_view bytes, int number, Field& found);
  template <class Message>
  bool parse(std::string_view bytes, Message& message);
  bool stop(const std::string& what);

  bool resource_metrics(std::string_view bytes);
  bool scope_metrics(std::string_view bytes);
  bool metric(std::string_view bytes);
  bool points(std::string_view data, bool exponential);
  bool reject_points(std::string_view data, const std::string& name);

  Gather gather_;
  std::string error_;
};

bool Walk::stop(const std::string& what) {
  if (error_.empty()) error_ = what;
  return false;
}

template <class Visit>
bool Walk::each(std::string_view bytes, Visit&& visit) {
  ProtobufFields fields(bytes);
  while (const auto field = fields.next()) {
    if (!visit(*field)) return false;
  }
  return !fields.broken() || stop("it is broken or was cut off");
}

bool Walk::last(std::string_view bytes, int number, Field& found) {
  return each(bytes, [&](const Field& field) {
    if (field.number == number) found = field;
    return true;
  });
}

template <class Message>
bool Walk::parse(std::string_view bytes, Message& message) {
  if (bytes.size() > longest_message) {
    return stop("one of its messages has " + std::to_string(bytes.size()) + " bytes, expected at most " +
                std::to_string(longest_message));
  }
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return stop("one of its messages is broken");
  return true;
}

Attribute attribute_of(const proto::KeyValue& pair) {
  const proto::AnyValue& value = pair.value();
  switch (value.value_case()) {
    case proto::AnyValue::kStringValue:
      return {pair.key(), 's', value.string_value()};
    case proto::AnyValue::kBoolValue:
      return {pair.key(), 'b', value.bool_value() ? "true" : "false"};
    case proto::AnyValue::kIntValue:
      return {pair.key(), 'i', std::to_string(value.int_value())};
    case proto::AnyValue::kDoubleValue:
      return {pair.key(), 'd', format_number(value.double_value())};
    default:
      return {pair.key(), 'x', value.SerializeAsString()};
  }
}

template <class Message>
Attributes attributes_of(const Message& message) {
  Attributes attributes;
  attributes.reserve(static_cast<std::size_t>(message.attributes_size()));
  for (const proto::KeyValue& pair : message.attributes()) attributes.push_back(attribute_of(pair));
  return attributes;
}

template <class Message>
RawPoint common_of(const Message& message) {
  RawPoint raw;
  raw.attributes = attributes_of(message);
  raw.start_ns = message.start_time_unix_nano();
  raw.time_ns = message.time_unix_nano();
  raw.count = message.count();
  if (message.has_sum()) raw.sum = message.sum();
  raw.flags = message.flags();
  return raw;
}

RawPoint raw_of(const proto::HistogramDataPoint& message) {
  RawPoint raw = common_of(message);
  raw.bucket_counts.assign(message.bucket_counts().begin(), message.bucket_counts().end());
  raw.explicit_bounds.assign(message.explicit_bounds().begin(), message.explicit_bounds().end());
  return raw;
}

RawPoint raw_of(const proto::ExponentialHistogramDataPoint& message) {
  RawPoint raw = common_of(message);
  raw.exponential = true;
  raw.scale = message.scale();
  raw.zero_count = message.zero_count();
  raw.zero_threshold = message.zero_threshold();
  raw.offset = message.positive().offset();
  const auto& counts = message.positive().bucket_counts();
  raw.bucket_counts.assign(counts.begin(), counts.end());
  const auto& below_zero = message.negative().bucket_counts();
  raw.negative_counts.assign(below_zero.begin(), below_zero.end());
  return raw;
}

bool Walk::points(std::string_view data, bool exponential) {
  Field temporality;
  if (!last(data, field::aggregation_temporality, temporality)) return false;
  const auto known = temporality.value <= static_cast<std::uint64_t>(Temporality::Cumulative)
                         ? static_cast<Temporality>(temporality.value)
                         : Temporality::Unspecified;
  return each(data, [&](const Field& field) {
    if (field.number != field::data_points) return true;
    if (exponential) {
      proto::ExponentialHistogramDataPoint message;
      if (!parse(field.bytes, message)) return false;
      gather_.point(raw_of(message), known);
      return true;
    }
    proto::HistogramDataPoint message;
    if (!parse(field.bytes, message)) return false;
    gather_.point(raw_of(message), known);
    return true;
  });
}

bool Walk::reject_points(std::string_view data, const std::string& name) {
  std::uint64_t count = 0;
  const bool walked = each(data, [&count](const Field& field) {
    if (field.number == field::data_points) ++count;
    return true;
  });
  if (walked) gather_.reject("the metric '" + name + "' is no histogram", count);
  return walked;
}

bool Walk::metric(std::string_view bytes) {
  Field name;
  Field unit;
  Field data;
  const bool walked = each(bytes, [&](const Field& field) {
    if (field.number == field::metric_name) name = field;
    if (field.number == field::metric_unit) unit = field;
    if (field.number >= field::metric_gauge && field.number <= field::metric_summary) data = field;
    return true;
  });
  if (!walked) return false;
  const bool exponential = data.number == field::metric_exponential_histogram;
  const bool histogram = exponential || data.number == field::metric_histogram;
  const std::string called(name.bytes);
  if (!gather_.metric(called, std::string(unit.bytes), histogram)) return true;
  return histogram ? points(data.bytes, exponential) : reject_points(data.bytes, called);
}

bool Walk::scope_metrics(std::string_view bytes) {
  Field scope;
  if (!last(bytes, field::scope_metrics_scope, scope)) return false;
  proto::InstrumentationScope message;
  if (!parse(scope.bytes, message)) return false;
  gather_.scope(message.name(), message.version(), attributes_of(message));
  return each(bytes, [this](const Field& field) {
    return field.number != field::scope_metrics_metrics || metric(field.bytes);
  });
}

bool Walk::resource_metrics(std::string_view bytes) {
  Field resource;
  if (!last(bytes, field::resource_metrics_resource, resource)) return false;
  proto::Resource message;
  if (!parse(resource.bytes, message)) return false;
  gather_.resource(attributes_of(message));
  return each(bytes, [this](const Field& field) {
    return field.number != field::resource_metrics_scope_metrics || scope_metrics(field.bytes);
  });
}

Result<Export> Walk::request(std::string_view bytes) {
  const bool walked = each(bytes, [this](const Field& field) {
    return field.number != field::request_resource_metrics || resource_metrics(field.bytes);
  });
  if (walked) return gather_.take();
  return Error{ErrorKind::Input, "the body is no ExportMetricsServiceRequest: " + error_, 0};
}

}  // namespace

Result<Export> read_protobuf(std::string_view body, const Selection& selection) {
  return Walk(selection).request(body);
}

}  // namespace osml::latency::otlp
