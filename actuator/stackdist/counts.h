// What is counted: for every group of sets and every stretch of the run, how deep in the stack the program found lines.
#pragma once

#include <array>
#include <cstdint>

#include "geometry.h"

namespace osml::stackdist {

inline constexpr std::uint32_t kVariants = 2;  // 0: no prefetcher, 1: a stream prefetcher
inline constexpr std::uint32_t kSlices = 64;
inline constexpr std::uint64_t kFirstSlice = 1U << 18U;  // instructions; doubles whenever all slices are full

// Places of a histogram: depths 0 to ways-1, then lines that were there before but fell off, then lines never seen.
inline constexpr std::uint32_t kBeyond = kMaxWays;
inline constexpr std::uint32_t kCold = kMaxWays + 1;
using Histogram = std::array<std::uint64_t, kMaxWays + 2>;

struct GroupCounts {
  std::array<Histogram, kVariants> demand{};  // what the program asked for
  Histogram prefetched{};                     // what the prefetcher of variant 1 asked for
  // Lines written to memory by variant and ways - 1.
  std::array<std::array<std::uint64_t, kMaxWays>, kVariants> written{};
};

struct Slice {
  std::uint64_t instructions = 0;
  std::array<GroupCounts, kGroups> groups{};
};

}  // namespace osml::stackdist
