// LLC occupancy and memory traffic of one resctrl group (mon_data), summed over the cache domains.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/kept_file.h"
#include "domain/interval.h"
#include "domain/types.h"

namespace osml {

class CacheMonitor {
 public:
  // `group` is the group's directory; empty = it has none now. Fills llc_occupancy_mib, bandwidth_gbps (local) and
  // bandwidth_total_gbps as far as the machine counts them: a silent domain ("Unavailable") makes the sum unknown, a
  // total that went backwards was reset and has no rate this time.
  void read(const std::string& group, const Interval& interval, Counters& counters);

 private:
  struct Event {
    std::vector<KeptFile> domains;
    Rate rate;
  };
  void scan(const std::string& group);
  std::optional<double> sum(Event& event);

  std::string group_;
  bool rescan_ = true;
  Event occupancy_;
  Event local_;
  Event total_;
};

}  // namespace osml
