// A budget of memory traffic per period, after Memguard (Yun et al., RTAS 2013): who has spent it stands still until
// the next period begins. What was moved beyond the budget (counters are read a few times a period only) is paid back
// from the following periods, so that the mean is kept; what was not used is lost, so that nobody saves up for a burst.
#pragma once

#include <cstdint>
#include <optional>

namespace osml {

class Budget {
 public:
  explicit Budget(double period_s) : period_s_(period_s) {}

  // From now on; absent = no limit.
  void set_limit(std::optional<double> bytes_per_s) { bytes_per_s_ = bytes_per_s; }

  // Counts the traffic up to now. True: the budget of this period is spent. A total that fell is a reset counter, whose
  // traffic since the last look is not known.
  bool spent(double now_s, std::uint64_t total_bytes);

  // Traffic is not known for a while: the next total is a beginning.
  void forget();

 private:
  double period_s_;
  std::optional<double> bytes_per_s_;
  std::optional<std::uint64_t> last_total_;
  double period_start_s_ = 0;
  double used_ = 0;  // bytes of this period, debts of earlier ones included
};

}  // namespace osml
