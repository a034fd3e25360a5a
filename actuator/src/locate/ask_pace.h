// When the kubelet is asked again: at once when something changed in the cgroup tree, seldom while all is known, and
// less and less often where asking does not help. Node time throughout.
#pragma once

#include <algorithm>

namespace osml {

class AskPace {
 public:
  [[nodiscard]] bool due(double now_s) const { return now_s >= next_s_; }
  // A pod or container that was known has gone, or a pod directory is new.
  void changed(double now_s) {
    if (failures_s_ > 0) return;  // who does not answer is not asked sooner
    in_a_row_ = 0;
    next_s_ = std::min(next_s_, std::max(now_s, asked_s_ + shortest_s));
  }
  // Who does not answer is not asked sooner, and nobody is asked twice for the same burst.
  [[nodiscard]] bool may_ask_out_of_turn(double now_s) const {
    return failures_s_ > 0 ? due(now_s) : now_s - asked_s_ >= out_of_turn_s;
  }
  // The list is behind the tree for a second or two: until judged() it is asked for again soon.
  void answered(double now_s) {
    asked_s_ = now_s;
    failures_s_ = 0;
    next_s_ = now_s + shortest_s;
  }
  // Once for each answer, when everybody was looked for in it.
  void judged(bool all_found) {
    in_a_row_ = all_found ? 0 : in_a_row_ + 1;
    next_s_ = asked_s_ + (!all_found && in_a_row_ < most_in_a_row ? shortest_s : longest_s);
  }
  void failed(double now_s) {
    asked_s_ = now_s;
    failures_s_ = failures_s_ == 0 ? shortest_s : std::min(2 * failures_s_, longest_s);
    next_s_ = now_s + failures_s_;
  }

 private:
  static constexpr double shortest_s = 1;
  static constexpr double longest_s = 30;
  static constexpr double out_of_turn_s = 0.05;
  static constexpr int most_in_a_row = 10;

  double next_s_ = 0;
  double asked_s_ = -longest_s;
  double failures_s_ = 0;  // the last pause after a failure; 0 after an answer
  int in_a_row_ = 0;
};

}  // namespace osml
