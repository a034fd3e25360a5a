// A service that is there, as those parts of the machine see it that follow from CPUs: clock domains and interrupts.
#pragma once

#include <cstdint>
#include <optional>

#include "base/cpuset.h"

namespace osml {

struct CpuUser {
  std::optional<CpuSet> cpus;  // absent = it may run on each
  std::optional<std::uint64_t> mhz;
  bool job = false;  // of class be
};

}  // namespace osml
