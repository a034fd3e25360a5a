// Instructions, cycles and LLC misses of one service by perf_event_open(2), counted per thread: that needs the fewest
// rights, and works where the cgroup version does not. Multiplexed counters are scaled by their share of the interval.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "domain/types.h"

namespace osml {

struct PerfEvent {
  std::uint32_t type;
  std::uint64_t config;
};

// In this order everywhere: instructions, cycles, LLC misses.
using PerfEvents = std::array<PerfEvent, 3>;
PerfEvents hardware_events();

// Whether this machine counts them, tried on the agent itself. The error says why not (no PMU, no permission).
Status probe_perf(const PerfEvents& events);

// What read(2) of an event gives, in this order: nanoseconds in which the thread ran, and in which the event had one of
// the few hardware counters.
struct PerfReading {
  std::uint64_t value = 0;
  std::uint64_t enabled = 0;
  std::uint64_t running = 0;
};
// What was counted between two readings, scaled up to the whole time. None where the thread ran and the event had no
// counter: nobody knows.
std::optional<double> counted_between(const PerfReading& before, const PerfReading& now);

// What all threads counted together, scaled up by the little that was not counted. Where that is more, the sum is not
// known: a part would pass for the whole.
class PerfSum {
 public:
  void add(const PerfReading& before, const PerfReading& now);
  // None where nothing was added, too.
  [[nodiscard]] std::optional<double> value() const;
  // Why the sum is not known.
  [[nodiscard]] Status known() const;

 private:
  std::optional<double> sum_;
  double enabled_ = 0;  // time in which threads ran, of all of them
  double unknown_ = 0;  // of those that nobody counted
};

class PerfCounters {
 public:
  explicit PerfCounters(const PerfEvents& events) : events_(events) {}

  // Counts since the last call, over the threads that were there then as well; a new thread counts from now on. Fills
  // instructions, cycles, llc_misses and ipc; leaves them missing where nothing was counted. The error: no thread could
  // be watched, or not all the time, and why; or there are more than the agent opens events for.
  Status read(const std::vector<pid_t>& tids, Counters& counters);

 private:
  struct Counter {
    Fd fd;
    PerfReading last;
  };
  using Thread = std::array<Counter, 3>;

  Status follow(const std::vector<pid_t>& tids);

  PerfEvents events_;
  std::map<pid_t, Thread> threads_;
};

// Raises the soft limit of open files to the hard one: three descriptors a thread are many.
void raise_file_limit();

}  // namespace osml
