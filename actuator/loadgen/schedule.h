// When requests are due: a Poisson process that is fixed by its seed and knows nothing of the server. That makes the
// loop open: a slow answer never moves the next request.
#pragma once

#include <array>
#include <cstdint>

#include "clock.h"

namespace osml::loadgen {

// xoshiro256** by Blackman and Vigna (public domain), seeded with splitmix64. Written out because the distributions of
// <random> differ between standard libraries, and a seed shall mean the same load everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed);
  std::uint64_t next();
  // Uniform in (0, 1]: never 0, so its logarithm is finite.
  double unit();
  // Uniform in [0, bound), bound > 0. The bias of the modulo is below 2^-32 for the bounds in use.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::array<std::uint64_t, 4> state_{};
};

class PoissonSchedule {
 public:
  // `rate` in requests per second; 0 = no requests.
  PoissonSchedule(double rate, std::uint64_t seed, Nanos start);

  [[nodiscard]] Nanos next() const { return next_; }
  [[nodiscard]] double rate() const { return rate_; }
  // Takes the due time off the schedule and draws the one after it.
  Nanos pop();
  // From `now` on. The process has no memory, so the gap that was drawn under the old rate may be dropped.
  void set_rate(double rate, Nanos now);

 private:
  void draw(Nanos from);

  Random random_;
  double rate_;
  Nanos next_ = kNever;
};

}  // namespace osml::loadgen
