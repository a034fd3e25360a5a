// LLC occupancy and memory traffic of one resctrl group (mon_data), summed over the cache domains.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/kept_file.h"
#include "domain/interval.h"
#include "domain/types.h"

namespace osml {

class CacheMonitor {
 public:
  // `group` is the group's directory; empty = it has none now. Fills llc_occupancy_mib, bandwidth_gbps (local) and
  // bandwidth_total_gbps as far as the machine counts them: a silent domain ("Unavailable") makes the sum unknown, and
  // so does a domain whose total went backwards, for it was reset.
  void read(const std::string& group, const Interval& interval, Counters& counters);

 private:
  struct Domain {
    explicit Domain(fs::path path) : file(std::move(path)) {}
    KeptFile file;
    Rate rate;  // of this domain alone: the growth of others may be more than what a reset takes
  };
  using Event = std::vector<Domain>;
  void scan(const std::string& group);
  // Whether domains have come or gone since the last scan. Looks now and then only.
  bool has_other_domains(double now_s);
  std::optional<double> value(Domain& domain);
  std::optional<double> sum(Event& event);
  // Since the last reading, over all domains.
  std::optional<double> growth(Event& event);

  std::string group_;
  std::vector<std::string> names_;  // in mon_data, at the last scan
  double looked_s_ = 0;
  bool rescan_ = true;
  Event occupancy_;
  Event local_;
  Event total_;
};

}  // namespace osml
