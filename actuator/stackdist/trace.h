// A trace of a program as text, as valgrind's tool lackey writes it: "I  ADDRESS,SIZE", " L ...", " S ...", " M ...".
#pragma once

#include <cstdint>
#include <istream>
#include <string>

#include "base/result.h"
#include "core.h"

namespace osml::stackdist {

struct TraceCounts {
  std::uint64_t instructions = 0;
  std::uint64_t accesses = 0;
};

// Runs a trace through a core, line by line. Lines of other programs ("==12== ...") are left out; a line that looks
// like an access and is none is refused with its number.
Result<TraceCounts> run_trace(std::istream& text, Core& core);

}  // namespace osml::stackdist
