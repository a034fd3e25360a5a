#include "histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace osml::loadgen {

// Values below kParts have a bucket each. Above, the highest bit gives the power and the seven bits after it the part.
std::size_t Histogram::bucket_of(std::uint64_t value) {
  if (value < kParts) return static_cast<std::size_t>(value);
  const auto shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kPartBits;
  const auto part = static_cast<std::size_t>(value >> shift) - kParts;
  return std::min((shift + 1) * kParts + part, kBuckets - 1);
}

std::uint64_t Histogram::middle_of(std::size_t bucket) {
  if (bucket < kParts) return bucket;
  const std::size_t shift = bucket / kParts - 1;
  const std::uint64_t low = (kParts + bucket % kParts) << shift;
  return low + ((std::uint64_t{1} << shift) / 2);
}

void Histogram::record(Nanos value) {
  const Nanos clamped = std::max<Nanos>(value, 0);
  ++buckets_[bucket_of(static_cast<std::uint64_t>(clamped))];
  ++count_;
  sum_ += static_cast<long double>(clamped);
}

void Histogram::add(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
}

std::optional<Nanos> Histogram::percentile(double share) const {
  if (count_ == 0) return std::nullopt;
  const double wanted = std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(count_));
  const auto rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(wanted));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= rank) return static_cast<Nanos>(middle_of(i));
  }
  return std::nullopt;
}

void Histogram::for_each(const std::function<void(Nanos, std::uint32_t)>& visit) const {
  for (std::size_t i = 0; i < kBuckets; ++i) {
    if (buckets_[i] > 0) visit(static_cast<Nanos>(middle_of(i)), buckets_[i]);
  }
}

std::optional<Nanos> Histogram::mean() const {
  if (count_ == 0) return std::nullopt;
  return static_cast<Nanos>(sum_ / static_cast<long double>(count_));
}

}  // namespace osml::loadgen
