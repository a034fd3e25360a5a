// Node time: the monotonic clock since the agent's start, times time_scale. The wall clock may jump; nothing here sees
// it.
#pragma once

#include <ctime>
#include <string_view>

namespace osml {

class NodeClock {
 public:
  explicit NodeClock(double time_scale);
  // Seconds of node time since the start.
  [[nodiscard]] double now_s() const;
  [[nodiscard]] double time_scale() const { return time_scale_; }

 private:
  double time_scale_;
  double start_s_;
};

// Seconds of CLOCK_MONOTONIC.
double monotonic_s();

// A share of the interval in [0, 1) that depends on the node's name only: agents that are started together do not ask
// the server together. FNV-1a, since std::hash may differ from build to build.
double phase_of(std::string_view node);

}  // namespace osml
