#include "bandwidth/budget.h"

#include <algorithm>
#include <cmath>

namespace osml {

namespace {

// A glitch of a counter must not stop a group for ever.
constexpr double longest_debt_s = 1;

}  // namespace

void Budget::forget() {
  last_total_.reset();
  used_ = 0;
}

bool Budget::spent(double now_s, std::uint64_t total_bytes) {
  if (!bytes_per_s_) {
    forget();
    return false;
  }
  if (!last_total_) {
    last_total_ = total_bytes;
    period_start_s_ = now_s;
    return false;
  }
  if (total_bytes > *last_total_) used_ += static_cast<double>(total_bytes - *last_total_);
  last_total_ = total_bytes;
  const double allowance = *bytes_per_s_ * period_s_;
  const double periods = std::floor((now_s - period_start_s_) / period_s_ + 1e-9);
  if (periods >= 1) {
    used_ = std::max(0.0, used_ - periods * allowance);
    period_start_s_ += periods * period_s_;
  }
  used_ = std::min(used_, *bytes_per_s_ * longest_debt_s + allowance);
  return used_ >= allowance;
}

}  // namespace osml
