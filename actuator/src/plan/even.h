// The fallback `even`: the same to everybody, in contiguous runs, within the operator's limits. Pure.
#pragma once

#include <vector>

#include "config/config.h"
#include "domain/types.h"

namespace osml {

struct Share {
  unsigned least = 1;
  unsigned most = 0;
};

// Hands out `total` units one by one to whoever has fewest and may have more. Empty where the least do not fit.
std::vector<unsigned> even_shares(unsigned total, const std::vector<Share>& bounds);

// CPUs as ids, or as quota where the platform counts slices. Where the least shares do not fit (more services than
// cores), all services share everything.
Decision even_decision(const Config& config, const Platform& platform);

}  // namespace osml
