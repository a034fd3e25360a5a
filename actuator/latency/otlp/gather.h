// From what a request says to the points that are selected. Both encodings hand what they read to this.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "otlp/point.h"

namespace osml::latency::otlp {

// Milliseconds in one of "s", "ms", "us" and "ns", or their whole words; none for another one.
std::optional<double> unit_in_ms(std::string_view unit);

class Gather {
 public:
  static constexpr std::size_t most_points = 10'000;
  static constexpr std::size_t most_buckets = Exponential::most_buckets;
  static constexpr std::uint64_t most_count = 1'000'000'000'000;
  static constexpr std::size_t most_others = 8;
  // Of a resource, a scope or a point: more of them would be looked at for each point.
  static constexpr std::size_t most_attributes = 128;  // what SDKs keep at most

  explicit Gather(const Selection& selection) : selection_(selection) {}

  // A resource holds for the scopes and metrics after it, a scope for the metrics after it.
  void resource(Attributes attributes);
  void scope(const std::string& name, const std::string& version, Attributes attributes);
  // Whether the points of this metric are wanted. A wanted name that is no histogram, or of another unit than of time,
  // has all its points rejected.
  bool metric(const std::string& name, const std::string& unit, bool histogram);
  void point(RawPoint&& raw, Temporality temporality);
  void reject(const std::string& reason, std::uint64_t points = 1);

  Export take() { return std::move(export_); }

 private:
  [[nodiscard]] bool selected(const Attributes& of_point) const;
  // The error says why a point is rejected.
  Status usable(const RawPoint& raw, Temporality temporality);

  const Selection& selection_;
  // What the resource does not have of the wanted ones.
  std::vector<std::pair<std::string, std::string>> left_to_point_;
  std::string resource_;  // hashes: made once, and not for each point
  std::string scope_;
  std::string metric_;
  std::string wrong_resource_;  // why no point of this resource can be used
  std::string wrong_scope_;
  std::optional<double> unit_ms_;
  std::size_t points_ = 0;  // that were selected
  Export export_;
};

}  // namespace osml::latency::otlp
