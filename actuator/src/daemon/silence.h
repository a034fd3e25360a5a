// How long the server has had nothing to say, and when that is too long. Node time throughout.
#pragma once

#include <optional>

namespace osml {

class Silence {
 public:
  enum class Step {
    First,     // the first interval without an answer
    Hold,      // still within hold_s: keep the allocation
    FallBack,  // hold_s is over; said once
    Over,      // fallen back already
  };

  Silence(double hold_s, double now_s) : hold_s_(hold_s), answered_s_(now_s) {}

  Step failed(double now_s) {
    const bool first = !silent_;
    silent_ = true;
    if (fallen_back_) return Step::Over;
    if (now_s - answered_s_ >= hold_s_) {
      fallen_back_ = true;
      return Step::FallBack;
    }
    return first ? Step::First : Step::Hold;
  }

  // Seconds of silence that end now; none where there was none.
  std::optional<double> answered(double now_s) {
    const std::optional<double> lasted = silent_ ? std::optional<double>(now_s - answered_s_) : std::nullopt;
    answered_s_ = now_s;
    silent_ = false;
    fallen_back_ = false;
    not_before_s_ = 0;
    return lasted;
  }

  // The server asked to be left in peace (Retry-After).
  void leave_in_peace_until(double node_time_s) { not_before_s_ = node_time_s; }
  [[nodiscard]] bool in_peace(double now_s) const { return now_s < not_before_s_; }
  [[nodiscard]] double since_s() const { return answered_s_; }

 private:
  double hold_s_;
  double answered_s_;
  double not_before_s_ = 0;
  bool silent_ = false;
  bool fallen_back_ = false;
};

}  // namespace osml
