#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/number.h"
#include "base/printable.h"
#include "otlp/gather.h"
#include "otlp/wire.h"

namespace osml::latency::otlp {

namespace {

using nlohmann::json;

constexpr std::size_t longest_shown = 60;

// Reads values by name. A missing or null one is the default, as in protobuf; the first one that is something else than
// it should be is the error of the whole request.
class Document {
 public:
  [[nodiscard]] const std::string& error() const { return error_; }

  // An empty object or list where there is none.
  const json& object(const json& in, const char* name) { return get(in, name, json::value_t::object, "an object"); }
  const json& list(const json& in, const char* name) { return get(in, name, json::value_t::array, "a list"); }
  std::string text(const json& in, const char* name);
  std::uint64_t unsigned_number(const json& in, const char* name);
  std::int64_t signed_number(const json& in, const char* name);
  std::int32_t small_number(const json& in, const char* name);
  std::optional<double> number(const json& in, const char* name);
  std::uint64_t unsigned_number(const char* name, const json& value);
  double number(const char* name, const json& value);

 private:
  const json& get(const json& in, const char* name, json::value_t type, const char* expected);
  static const json* find(const json& in, const char* name);
  void wrong(const char* name, const json& value, const char* expected);

  std::string error_;
};

// Writing one that is nested deeply takes the stack.
std::string shown(const json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace), longest_shown);
}

void Document::wrong(const char* name, const json& value, const char* expected) {
  if (!error_.empty()) return;
  error_ = std::string(name) + " is " + shown(value) + ", expected " + expected;
}

const json* Document::find(const json& in, const char* name) {
  if (!in.is_object()) return nullptr;
  const auto found = in.find(name);
  return found == in.end() || found->is_null() ? nullptr : &*found;
}

const json& Document::get(const json& in, const char* name, json::value_t type, const char* expected) {
  static const json no_object = json::object();
  static const json no_list = json::array();
  const json& none = type == json::value_t::object ? no_object : no_list;
  const json* found = find(in, name);
  if (found == nullptr) return none;
  if (found->type() == type) return *found;
  wrong(name, *found, expected);
  return none;
}

std::string Document::text(const json& in, const char* name) {
  const json* found = find(in, name);
  if (found == nullptr) return {};
  if (const auto* words = found->get_ptr<const std::string*>()) return *words;
  wrong(name, *found, "text");
  return {};
}

std::uint64_t Document::unsigned_number(const char* name, const json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (const auto* words = value.get_ptr<const std::string*>()) {
    if (const auto number = parse_unsigned(*words)) return *number;
  }
  wrong(name, value, "a whole number from 0 on, or its text");
  return 0;
}

std::uint64_t Document::unsigned_number(const json& in, const char* name) {
  const json* found = find(in, name);
  return found == nullptr ? 0 : unsigned_number(name, *found);
}

std::int64_t Document::signed_number(const json& in, const char* name) {
  const json* found = find(in, name);
  if (found == nullptr) return 0;
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (found->is_number_integer() && !(found->is_number_unsigned() && found->get<std::uint64_t>() > most)) {
    return found->get<std::int64_t>();
  }
  if (const auto* words = found->get_ptr<const std::string*>()) {
    const bool negative = words->starts_with('-');
    const auto number = parse_unsigned(negative ? std::string_view(*words).substr(1) : *words);
    if (number && *number <= most)
      return negative ? -static_cast<std::int64_t>(*number) : static_cast<std::int64_t>(*number);
  }
  wrong(name, *found, "a whole number, or its text");
  return 0;
}

std::int32_t Document::small_number(const json& in, const char* name) {
  const std::int64_t number = signed_number(in, name);
  if (number >= std::numeric_limits<std::int32_t>::min() && number <= std::numeric_limits<std::int32_t>::max()) {
    return static_cast<std::int32_t>(number);
  }
  wrong(name, number, "a whole number of 32 bits");
  return 0;
}

// What is no finite number has texts of its own in JSON; no latency is that, and nobody needs to tell them apart.
double Document::number(const char* name, const json& value) {
  if (value.is_number()) return value.get<double>();
  if (const auto* words = value.get_ptr<const std::string*>()) {
    if (*words == "NaN" || *words == "Infinity" || *words == "-Infinity") return std::nan("");
    if (const auto number = parse_double(*words)) return *number;
  }
  wrong(name, value, "a number");
  return 0;
}

std::optional<double> Document::number(const json& in, const char* name) {
  const json* found = find(in, name);
  return found == nullptr ? std::nullopt : std::optional(number(name, *found));
}

// As protobuf has it: null is not there.
bool has(const json& in, const char* name) {
  const auto found = in.find(name);
  return found != in.end() && !found->is_null();
}

Attribute attribute_of(Document& document, const json& pair) {
  Attribute made{document.text(pair, "key"), 'x', {}};
  const json& value = document.object(pair, "value");
  if (has(value, "stringValue")) {
    made.type = 's';
    made.text = document.text(value, "stringValue");
  } else if (has(value, "intValue")) {
    made.type = 'i';
    made.text = std::to_string(document.signed_number(value, "intValue"));
  } else if (has(value, "doubleValue")) {
    made.type = 'd';
    made.text = format_number(document.number(value, "doubleValue").value_or(0));
  } else if (const auto found = value.find("boolValue"); found != value.end() && found->is_boolean()) {
    made.type = 'b';
    made.text = found->get<bool>() ? "true" : "false";
  } else {
    made.text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  return made;
}

Attributes attributes_of(Document& document, const json& in) {
  Attributes attributes;
  for (const json& pair : document.list(in, "attributes")) attributes.push_back(attribute_of(document, pair));
  return attributes;
}

void take_counts(Document& document, const json& in, std::vector<std::uint64_t>& counts) {
  for (const json& count : document.list(in, "bucketCounts")) {
    counts.push_back(document.unsigned_number("bucketCounts", count));
  }
}

RawPoint raw_of(Document& document, const json& in, bool exponential) {
  RawPoint raw;
  raw.attributes = attributes_of(document, in);
  raw.start_ns = document.unsigned_number(in, "startTimeUnixNano");
  raw.time_ns = document.unsigned_number(in, "timeUnixNano");
  raw.count = document.unsigned_number(in, "count");
  raw.sum = document.number(in, "sum");
  raw.flags = static_cast<std::uint32_t>(document.unsigned_number(in, "flags"));
  raw.exponential = exponential;
  if (!exponential) {
    take_counts(document, in, raw.bucket_counts);
    for (const json& bound : document.list(in, "explicitBounds")) {
      raw.explicit_bounds.push_back(document.number("explicitBounds", bound));
    }
    return raw;
  }
  const json& positive = document.object(in, "positive");
  take_counts(document, positive, raw.bucket_counts);
  raw.scale = document.small_number(in, "scale");
  raw.offset = document.small_number(positive, "offset");
  raw.zero_count = document.unsigned_number(in, "zeroCount");
  raw.zero_threshold = document.number(in, "zeroThreshold").value_or(0);
  take_counts(document, document.object(in, "negative"), raw.negative_counts);
  return raw;
}

void read_metric(Document& document, const json& metric, Gather& gather) {
  const bool exponential = has(metric, "exponentialHistogram");
  const bool histogram = exponential || has(metric, "histogram");
  const std::string name = document.text(metric, "name");
  if (!gather.metric(name, document.text(metric, "unit"), histogram)) return;
  if (!histogram) {
    for (const char* kind : {"gauge", "sum", "summary"}) {
      gather.reject("the metric '" + name + "' is no histogram",
                    document.list(document.object(metric, kind), "dataPoints").size());
    }
    return;
  }
  const json& data = document.object(metric, exponential ? "exponentialHistogram" : "histogram");
  const std::uint64_t number = document.unsigned_number(data, "aggregationTemporality");
  const auto known = number <= static_cast<std::uint64_t>(Temporality::Cumulative) ? static_cast<Temporality>(number)
                                                                                   : Temporality::Unspecified;
  for (const json& point : document.list(data, "dataPoints")) gather.point(raw_of(document, point, exponential), known);
}

void read_resource(Document& document, const json& resource_metrics, Gather& gather) {
  gather.resource(attributes_of(document, document.object(resource_metrics, "resource")));
  for (const json& scope_metrics : document.list(resource_metrics, "scopeMetrics")) {
    const json& scope = document.object(scope_metrics, "scope");
    gather.scope(document.text(scope, "name"), document.text(scope, "version"), attributes_of(document, scope));
    for (const json& metric : document.list(scope_metrics, "metrics")) read_metric(document, metric, gather);
  }
}

Error no_request(const std::string& why) {
  return {ErrorKind::Input, "the body is no ExportMetricsServiceRequest: " + why, 0};
}

}  // namespace

Result<Export> read_json(std::string_view body, const Selection& selection) {
  // As deep as protobuf reads. What lies deeper is not kept, so that nothing walks it.
  constexpr int deepest = 100;
  bool too_deep = false;
  const json parsed = json::parse(
      body,
      [&too_deep](int depth, json::parse_event_t /*event*/, json& /*value*/) {
        too_deep = too_deep || depth > deepest;
        return depth <= deepest;
      },
      false);
  if (too_deep) return no_request("it is nested more than " + std::to_string(deepest) + " times");
  if (!parsed.is_object()) return no_request("it is no JSON object");
  Document document;
  Gather gather(selection);
  for (const json& one : document.list(parsed, "resourceMetrics")) read_resource(document, one, gather);
  if (!document.error().empty()) return no_request(document.error());
  return gather.take();
}

}  // namespace osml::latency::otlp
