// Latencies in logarithmic buckets: every power of two is cut into 128 equal parts, so a percentile is off by at most
// half a part (0.4 %), whatever the distribution. Fixed size, no allocation while recording.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "clock.h"

namespace osml::loadgen {

class Histogram {
 public:
  // Negative values count as 0; values beyond about 78 hours share the last bucket.
  void record(Nanos value);
  void add(const Histogram& other);
  void clear() { *this = Histogram{}; }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  // Nearest rank, `share` in [0, 1]: the smallest value that at least this share of the samples does not exceed.
  // Empty where nothing was recorded: no samples is not a latency of 0.
  [[nodiscard]] std::optional<Nanos> percentile(double share) const;
  [[nodiscard]] std::optional<Nanos> mean() const;
  // Each bucket that is not empty, ascending: its middle and its samples.
  void for_each(const std::function<void(Nanos, std::uint32_t)>& visit) const;

 private:
  static constexpr unsigned kPartBits = 7;
  static constexpr std::size_t kParts = std::size_t{1} << kPartBits;
  static constexpr std::size_t kPowers = 42;
  static constexpr std::size_t kBuckets = kParts * kPowers;

  static std::size_t bucket_of(std::uint64_t value);
  static std::uint64_t middle_of(std::size_t bucket);

  std::array<std::uint32_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  long double sum_ = 0;
};

}  // namespace osml::loadgen
