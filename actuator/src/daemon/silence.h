// How long the server has had nothing to say, and when that is too long. Node time throughout.
#pragma once

#include <algorithm>
#include <optional>

namespace osml {

class Silence {
 public:
  enum class Step {
    First,     // the first interval without an answer
    Hold,      // still within hold_s: keep the allocation
    FallBack,  // hold_s is over; said once
    Retry,     // the same, and the fallback is not in force yet
    Over,      // fallen back already
  };

  Silence(double hold_s, double now_s) : hold_s_(hold_s), answered_s_(now_s) {}

  // hold_s counts from the first failure. An interval may be longer than hold_s, so it takes two failed questions too:
  // one lost answer is no silence. `asked`: false where the server was left in peace.
  Step failed(double now_s, bool asked) {
    const bool first = !failed_s_;
    if (first) failed_s_ = now_s;
    questions_ += asked ? 1 : 0;
    if (fallen_back_) return Step::Over;
    if (overdue_) return Step::Retry;
    constexpr unsigned least_questions = 2;
    overdue_ = left_s(now_s) <= 0 && questions_ >= least_questions;
    if (overdue_) return Step::FallBack;
    return first ? Step::First : Step::Hold;
  }

  // Over a reload: the fallback of the configuration that is new has to be put in force. A shorter hold_s shortens the
  // peace, too: before the fallback the server is asked once more.
  void go_on(double hold_s, double now_s) {
    hold_s_ = hold_s;
    fallen_back_ = false;
    if (!overdue_) not_before_s_ = std::min(not_before_s_, now_s + std::max(0.0, left_s(now_s) / 2));
  }

  // The fallback is in force. Until then every interval tries it again.
  void fallen_back() { fallen_back_ = true; }

  // Seconds of silence that end now; none where there was none.
  std::optional<double> answered(double now_s) {
    const std::optional<double> lasted = failed_s_ ? std::optional<double>(now_s - answered_s_) : std::nullopt;
    *this = Silence(hold_s_, now_s);
    return lasted;
  }

  // The server asked to be left in peace (Retry-After). Before the fallback it is asked at least once more, at once
  // where the fallback does not wait.
  void leave_in_peace(double now_s, double peace_s) {
    const double left = left_s(now_s);
    const bool again = left > 0 || !failed_s_;
    not_before_s_ = now_s + (again ? std::min(peace_s, std::max(0.0, left) / 2) : peace_s);
  }
  [[nodiscard]] bool in_peace(double now_s) const { return now_s < not_before_s_; }
  [[nodiscard]] double since_s() const { return answered_s_; }

 private:
  [[nodiscard]] double left_s(double now_s) const { return failed_s_.value_or(now_s) + hold_s_ - now_s; }

  double hold_s_;
  double answered_s_;
  double not_before_s_ = 0;
  std::optional<double> failed_s_;  // first failure of this silence
  unsigned questions_ = 0;          // failed ones of this silence
  bool overdue_ = false;
  bool fallen_back_ = false;
};

}  // namespace osml
