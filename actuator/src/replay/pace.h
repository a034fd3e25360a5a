// When the next decision of a record is due, in wall time.
#pragma once

#include <optional>

namespace osml {

class Pace {
 public:
  // Node time per wall time; none: everything is due at once.
  explicit Pace(std::optional<double> rate) : rate_(rate) {}

  // `node_time_s` as recorded, `now_s` and the result on one monotonic clock. A run that follows in the same file
  // begins with a clock of its own, so its first decision is due with the last of the run before.
  double due_s(double node_time_s, double now_s) {
    if (!rate_) return now_s;
    if (!begun_) due_s_ = now_s;
    if (begun_ && node_time_s > last_node_s_) due_s_ += (node_time_s - last_node_s_) / *rate_;
    begun_ = true;
    last_node_s_ = node_time_s;
    return due_s_;
  }

 private:
  std::optional<double> rate_;
  bool begun_ = false;
  double last_node_s_ = 0;
  double due_s_ = 0;
};

}  // namespace osml
