// Data points of histograms, as they come and as they are used.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "domain/exponential.h"
#include "domain/histogram.h"

namespace osml::latency::otlp {

struct Attribute {
  std::string key;
  char type = 's';   // so that the text "1" and the number 1 are two values
  std::string text;  // what --attribute is compared with
};
using Attributes = std::vector<Attribute>;

// Numbers as in the protocol.
enum class Temporality : std::uint8_t { Unspecified = 0, Delta = 1, Cumulative = 2 };
constexpr std::uint32_t no_recorded_value = 1;  // of the flags

// A data point before anybody has looked at it, of a Histogram or an ExponentialHistogram.
struct RawPoint {
  Attributes attributes;
  std::uint64_t start_ns = 0;
  std::uint64_t time_ns = 0;
  std::uint64_t count = 0;
  std::optional<double> sum;
  std::uint32_t flags = 0;
  std::vector<std::uint64_t> bucket_counts;  // of positive values, where exponential
  std::vector<double> explicit_bounds;
  bool exponential = false;
  std::int32_t scale = 0;
  std::int32_t offset = 0;
  std::uint64_t zero_count = 0;
  double zero_threshold = 0;
  std::vector<std::uint64_t> negative_counts;  // of values below 0
};

// One that was selected and makes sense.
struct Point {
  // Of its series: a hash of resource, scope, unit and attributes. Of 20,000 series two are taken for one with a
  // probability of 1e-11; who wants that can as well send the attributes of another.
  std::uint64_t identity = 0;
  bool cumulative = true;
  bool has_value = true;
  std::uint64_t start_ns = 0;  // 0: nobody knows
  std::uint64_t time_ns = 0;
  std::variant<Histogram, Exponential> value;  // a histogram in milliseconds
};

// What is selected, by name and by attributes of the resource or the point.
struct Selection {
  std::string name = "http.server.request.duration";
  std::vector<std::pair<std::string, std::string>> attributes;
  double unit_ms = 1000.0;  // where the metric names no unit
};

// What one request brought.
struct Export {
  std::vector<Point> points;
  std::uint64_t rejected = 0;    // selected points that cannot be used
  std::string reason;            // of the first of them
  std::set<std::string> others;  // some names of other histograms
};

}  // namespace osml::latency::otlp
