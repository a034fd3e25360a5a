// Requests of OTLP as SDKs send them, for tests.
#pragma once

#include <otlp.pb.h>

#include <cstdint>
#include <string>
#include <vector>

namespace osml::latency::otlp::testing_support {

constexpr std::uint64_t second = 1'000'000'000;

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7U) bytes += static_cast<char>(0x80U | (value & 0x7fU));
  return bytes + static_cast<char>(value);
}

// A field that has a length: a text or a message.
inline std::string field(unsigned number, const std::string& bytes) {
  return varint(number << 3U | 2U) + varint(bytes.size()) + bytes;
}

inline std::string number_field(unsigned number, std::uint64_t value) { return varint(number << 3U) + varint(value); }

struct Pair {
  std::string key;
  std::string value;
};

template <class Message>
void put(Message& message, const std::vector<Pair>& attributes) {
  for (const Pair& pair : attributes) {
    auto* made = message.add_attributes();
    made->set_key(pair.key);
    made->mutable_value()->set_string_value(pair.value);
  }
}

// Counts in buckets of bounds 0.01, 0.1 and 1 s.
inline proto::HistogramDataPoint point(const std::vector<std::uint64_t>& counts, double sum, std::uint64_t start_ns,
                                       std::uint64_t time_ns, const std::vector<Pair>& attributes = {}) {
  proto::HistogramDataPoint made;
  std::uint64_t count = 0;
  for (const std::uint64_t one : counts) {
    made.add_bucket_counts(one);
    count += one;
  }
  for (const double bound : {0.01, 0.1, 1.0}) made.add_explicit_bounds(bound);
  made.set_count(count);
  made.set_sum(sum);
  made.set_start_time_unix_nano(start_ns);
  made.set_time_unix_nano(time_ns);
  put(made, attributes);
  return made;
}

template <class Message>
std::string points(const std::vector<Message>& messages, std::uint64_t temporality) {
  std::string data;
  for (const Message& message : messages) data += field(1, message.SerializeAsString());
  return data + number_field(2, temporality);
}

inline std::string metric(const std::string& name, const std::string& unit, unsigned kind, const std::string& data) {
  return field(1, name) + field(2, "what it is") + field(3, unit) + field(kind, data);
}

inline std::string request(const std::vector<std::string>& metrics, const std::vector<Pair>& resource = {}) {
  proto::Resource of_resource;
  put(of_resource, resource);
  proto::InstrumentationScope scope;
  scope.set_name("http");
  std::string of_scope = field(1, scope.SerializeAsString());
  for (const std::string& one : metrics) of_scope += field(2, one);
  return field(1, field(1, of_resource.SerializeAsString()) + field(2, of_scope));
}

constexpr unsigned histogram = 9;
constexpr unsigned exponential_histogram = 10;
constexpr std::uint64_t delta = 1;
constexpr std::uint64_t cumulative = 2;
inline const char* const duration = "http.server.request.duration";

// One histogram of HTTP requests.
inline std::string request_of(const std::vector<proto::HistogramDataPoint>& messages,
                              std::uint64_t temporality = cumulative, const std::vector<Pair>& resource = {}) {
  return request({metric(duration, "s", histogram, points(messages, temporality))}, resource);
}

}  // namespace osml::latency::otlp::testing_support
