// What the agent itself costs: the price of every decision, measured and not claimed.
#pragma once

#include <optional>

#include "base/kept_file.h"

namespace osml {

// CPU time of this process since its start.
double process_cpu_s();
// Resident memory of this process, read now.
std::optional<double> resident_mib();

struct SelfUsage {
  std::optional<double> cpu_pct;  // of one CPU, wall time, since the last turn
  std::optional<double> rss_mib;
};

class SelfMeter {
 public:
  SelfMeter();
  SelfUsage read();

 private:
  KeptFile statm_;
  double last_wall_s_;
  double last_cpu_s_;
};

}  // namespace osml
