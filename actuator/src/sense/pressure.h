// Pressure stall information (PSI) of the kernel: the share of an interval in which some task waited for a resource.
#pragma once

#include <optional>
#include <string_view>

#include "base/kept_file.h"
#include "domain/interval.h"

namespace osml {

// `total` of the line "some", in microseconds.
std::optional<std::uint64_t> stalled_us(std::string_view text);

struct PressureShares {
  std::optional<double> cpu, memory, io;  // 0 to 1
};

// The three files of a cgroup (cpu.pressure, ...) or of the machine (pressure/cpu, ...).
class Pressure {
 public:
  Pressure(fs::path cpu, fs::path memory, fs::path io);

  // Shares of this interval. A file that is not there, or is switched off (cgroup.pressure), has none.
  PressureShares read(const Interval& interval);
  // False where the kernel has none of the files.
  [[nodiscard]] bool available() const;

 private:
  struct Stall {
    KeptFile file;
    Rate total;
  };
  static std::optional<double> share(Stall& stall, const Interval& interval);

  Stall cpu_, memory_, io_;
};

}  // namespace osml
