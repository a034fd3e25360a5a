// Time in this program: nanoseconds of CLOCK_MONOTONIC, which is what schedules, latencies and `t` are in.
#pragma once

#include <cstdint>
#include <ctime>
#include <limits>

namespace osml::loadgen {

using Nanos = std::int64_t;
inline constexpr Nanos kNever = std::numeric_limits<Nanos>::max();
inline constexpr Nanos kSecond = 1'000'000'000;
inline constexpr Nanos kMillisecond = 1'000'000;

inline Nanos clock_now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Nanos{time.tv_sec} * kSecond + time.tv_nsec;
}

inline double to_seconds(Nanos time) { return static_cast<double>(time) / 1e9; }
inline double to_ms(Nanos time) { return static_cast<double>(time) / 1e6; }
inline Nanos from_seconds(double seconds) { return static_cast<Nanos>(seconds * 1e9); }

}  // namespace osml::loadgen
