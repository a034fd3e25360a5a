// How long the threads of a service were ready to run and had no CPU (schedstat). Needs no hardware counters.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "domain/interval.h"

namespace osml {

struct RunDelay {
  double delay_s = 0;   // sum over threads
  double switches = 0;  // times that a thread was put on a CPU
};

// Wait time (ns to s) and time slices of a line of schedstat: "ran waited slices".
std::optional<RunDelay> parse_schedstat(std::string_view text);

class RunDelaySensor {
 public:
  explicit RunDelaySensor(fs::path proc_root) : root_(std::move(proc_root)) {}

  // Growth since the last interval, of the threads that were there then, too. None in the first interval, where the
  // kernel has no schedstat, and for more threads than can be read in passing.
  std::optional<RunDelay> read(const std::vector<pid_t>& tids);
  // Why the last read() had nothing to read; empty where it had, or there were no threads.
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  struct Thread {
    Rate delay, switches;
  };

  fs::path root_;
  std::map<pid_t, Thread> threads_;
  std::string why_;
};

}  // namespace osml
