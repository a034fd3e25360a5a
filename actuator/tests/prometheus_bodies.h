// Bodies of Prometheus' protobuf format, for tests: written by hand, so that nothing of them comes from the code that
// reads them. Numbers of fields are those of prometheus/client_model, io/prometheus/client/metrics.proto.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace osml::testing_support {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7U) bytes += static_cast<char>(0x80U | (value & 0x7fU));
  return bytes + static_cast<char>(value);
}

// A message or text, with its length before it: also how families follow each other.
inline std::string delimited(const std::string& bytes) { return varint(bytes.size()) + bytes; }
inline std::string field(unsigned number, const std::string& bytes) {
  return varint(number << 3U | 2U) + delimited(bytes);
}
inline std::string whole(unsigned number, std::uint64_t value) { return varint(number << 3U) + varint(value); }
inline std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63);
}
inline std::string real(unsigned number, double value) {
  std::string bytes = varint(number << 3U | 1U);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (unsigned shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(bits >> shift & 0xffU);
  return bytes;
}

inline std::string span(std::int64_t offset, std::uint64_t length) {
  return field(12, whole(1, zigzag(offset)) + whole(2, length));
}
inline std::string delta(std::int64_t value) { return whole(13, zigzag(value)); }

// As client libraries count.
struct NativeBody {
  int schema = 3;
  double zero_threshold = 2.938735877055719e-39;  // 2^-128
  std::uint64_t zero_count = 0;
  std::map<std::int64_t, std::int64_t> buckets = {};  // index -> count, of (base^(index-1), base^index]
  double sum = 0;
  std::uint64_t count = 0;

  void observe(double value) {
    sum += value;
    ++count;
    if (value <= zero_threshold) {
      ++zero_count;
    } else {
      ++buckets[static_cast<std::int64_t>(std::ceil(std::ldexp(std::log2(value), schema)))];
    }
  }

  // What a client does that has too many buckets.
  void halve_resolution() {
    --schema;
    std::map<std::int64_t, std::int64_t> joined;
    for (const auto& [index, n] : buckets) joined[(index + 1) >> 1] += n;
    buckets = joined;
  }
  void merge_lowest_into_zero() {
    zero_threshold = std::exp2(std::ldexp(static_cast<double>(buckets.begin()->first), -schema));
    zero_count += static_cast<std::uint64_t>(buckets.begin()->second);
    buckets.erase(buckets.begin());
  }

  // Gaps of one or two empty buckets are part of a span, as clients send them.
  [[nodiscard]] std::string message() const {
    std::string spans;
    std::string deltas;
    std::int64_t next = 0;
    std::int64_t before = 0;
    for (auto one = buckets.begin(); one != buckets.end();) {
      const std::int64_t offset = one->first - next;
      std::uint64_t length = 0;
      next = one->first;
      for (; one != buckets.end() && one->first - next <= 2; ++one) {
        for (; next < one->first; ++next, ++length) deltas += delta(-std::exchange(before, 0));
        deltas += delta(one->second - std::exchange(before, one->second));
        ++next;
        ++length;
      }
      spans += span(offset, length);
    }
    return whole(1, count) + real(2, sum) + whole(5, zigzag(schema)) + real(6, zero_threshold) + whole(7, zero_count) +
           spans + deltas;
  }
};

inline NativeBody native_of_values(int schema, const std::vector<double>& values) {
  NativeBody made;
  made.schema = schema;
  for (const double value : values) made.observe(value);
  return made;
}

// Cumulative counts by bound; the last one, of +Inf, is left out as clients do.
inline std::string classic_message(const std::map<double, std::uint64_t>& buckets, double sum, std::uint64_t count) {
  std::string message = whole(1, count) + real(2, sum);
  for (const auto& [upper, below] : buckets) message += field(3, whole(1, below) + real(2, upper));
  return message;
}

using LabelPairs = std::vector<std::pair<std::string, std::string>>;

inline std::string metric(const std::string& histogram, const LabelPairs& labels = {}) {
  std::string message;
  for (const auto& [name, value] : labels) message += field(1, field(1, name) + field(2, value));
  return message + field(7, histogram);
}

constexpr std::uint64_t histogram_type = 4;

// One family with its length, as a body has them.
inline std::string family(const std::string& name, const std::vector<std::string>& metrics,
                          std::uint64_t type = histogram_type) {
  std::string message = field(1, name) + field(2, "what it is") + whole(3, type);
  for (const std::string& one : metrics) message += field(4, one);
  return delimited(message);
}

// What else a service has: a counter with a value, before or after the histogram.
inline std::string other_family() { return family("requests_total", {field(3, real(1, 17))}, 0); }

}  // namespace osml::testing_support
