// Sizes of the simulated caches, and which sets of the last level are looked at.
#pragma once

#include <cstdint>

namespace osml::stackdist {

inline constexpr std::uint32_t kLineBytes = 64;
inline constexpr std::uint32_t kLineShift = 6;
inline constexpr std::uint32_t kMaxWays = 64;
inline constexpr std::uint32_t kGroups = 16;  // of sets: their spread is one half of the error bar

struct PrivateCache {
  std::uint32_t kib = 0;
  std::uint32_t ways = 0;
};

struct Geometry {
  PrivateCache l1i{32, 8};
  PrivateCache l1d{32, 8};
  PrivateCache l2{256, 8};
  std::uint64_t sets = 1024;  // of the last level; all of its ways are simulated at once
  std::uint32_t ways = 16;
  std::uint32_t sample_shift = 0;  // one set in 2^sample_shift is simulated
  // True: sets are drawn by a hash of the line, as physical pages lie at random. False: line modulo sets.
  bool hashed = true;
  std::uint64_t seed = 0;

  [[nodiscard]] std::uint64_t sampled_sets() const { return sets >> sample_shift; }
};

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace osml::stackdist
