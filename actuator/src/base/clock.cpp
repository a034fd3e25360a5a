#include "base/clock.h"

#include <cstdint>

namespace osml {

NodeClock::NodeClock(double time_scale) : time_scale_(time_scale), start_s_(monotonic_s()) {}

double NodeClock::now_s() const { return (monotonic_s() - start_s_) * time_scale_; }

double monotonic_s() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double phase_of(std::string_view node) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : node) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  // the low bits of FNV vary most
  constexpr std::uint64_t steps = std::uint64_t{1} << 20U;
  return static_cast<double>(hash % steps) / static_cast<double>(steps);
}

}  // namespace osml
