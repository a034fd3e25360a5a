// The pauses of one kind of request: after a failure longer and longer, and as long as the API server asks for. Node
// time throughout.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"

namespace osml {

class Lane {
 public:
  // `seed` spreads the nodes: they shall not come back together after an API server was away.
  explicit Lane(std::string seed, double longest_s = ten_minutes_s) : seed_(std::move(seed)), longest_s_(longest_s) {}

  [[nodiscard]] bool due(double now_s) const { return now_s >= not_before_s_; }
  // True where it was failing before.
  bool succeeded() {
    not_before_s_ = 0;
    complaint_.clear();
    return std::exchange(failures_, 0U) > 0;
  }
  // `asked_s`: by the API server, 0 where it asked for nothing. True where `what` is news.
  bool failed(double now_s, double asked_s, const std::string& what) {
    constexpr unsigned most_doublings = 6;
    const double pause_s =
        std::min(first_s * static_cast<double>(1U << std::min(failures_, most_doublings)), longest_s_);
    ++failures_;
    // From a half to the whole of it.
    const double spread_s = pause_s * (1 + phase_of(seed_ + std::to_string(failures_))) / 2;
    not_before_s_ = now_s + std::max(spread_s, std::min(asked_s, ten_minutes_s));
    return std::exchange(complaint_, what) != what;
  }
  [[nodiscard]] double wait_s(double now_s) const { return std::max(0.0, not_before_s_ - now_s); }

 private:
  static constexpr double first_s = 10;
  static constexpr double ten_minutes_s = 600;

  std::string seed_;
  double longest_s_;       // that the agent pauses by itself
  unsigned failures_ = 0;  // in a row
  double not_before_s_ = 0;
  std::string complaint_;
};

}  // namespace osml
