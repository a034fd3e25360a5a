// One turn of the loop, as sensors see it. Times are node time.
#pragma once

#include <cstdint>
#include <optional>

namespace osml {

struct Interval {
  std::uint64_t number = 0;  // of this turn; what is read once per interval is kept under it
  double time_s = 0;
  double length_s = 1;  // since the last turn
};

// A running total (CPU time, bytes) to a rate. The first reading, one after a gap and one after the total went
// backwards (a reset) have no rate.
class Rate {
 public:
  // Growth of the total since the last call in its own unit; none where it is not known.
  std::optional<double> grown(double total) {
    const std::optional<double> before = last_;
    last_ = total;
    if (!before || total < *before) return std::nullopt;
    return total - *before;
  }
  void forget() { last_.reset(); }

 private:
  std::optional<double> last_;
};

}  // namespace osml
