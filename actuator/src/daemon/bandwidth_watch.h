// Wanted against measured: throttles are promises of the hardware that are not always kept (a software loop that moves
// once a second, curves that differ with the number of groups). Says who moves more than its throttle allows.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "domain/types.h"

namespace osml {

class BandwidthWatch {
 public:
  // One sentence for each service whose traffic has come to exceed its throttle by a tenth since the last call. Only
  // where throttles are bandwidths (MB/s, 1/8 GB/s): a percentage promises nothing.
  std::vector<std::string> look(const Platform& platform, const std::vector<Assignment>& assignments,
                                const std::vector<Service>& services);

 private:
  std::set<std::string> over_;
};

}  // namespace osml
