// Finds the services of the configuration on this machine, once an interval.
#pragma once

#include <vector>

#include "config/config.h"
#include "locate/place.h"

namespace osml {

class Locator {
 public:
  // In the configuration's order.
  [[nodiscard]] static std::vector<Place> look(const Config& config);
};

}  // namespace osml
