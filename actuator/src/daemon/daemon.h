// The loop of `osml-agent run`: one thread that waits on a timer and on signals, and once an interval senses, asks the
// server, applies and reports. See loop.h for what one interval does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/files.h"
#include "base/result.h"
#include "config/config.h"

namespace osml {

struct RunOptions {
  // Reads the configuration with the command line's overrides on top. Called at the start and at every SIGHUP.
  std::function<Result<Config>()> load;
  bool dry_run = false;                // decide and check, write nothing
  std::optional<std::uint64_t> ticks;  // stop after so many intervals
  bool once = false;                   // a look: ticks is 1, and a configured service that is not there is an error
  bool fault_injection = false;        // crash tests only
  std::optional<fs::path> record;      // append every observation and decision here, see record.h
  std::optional<fs::path> stats;       // append the agent's own use of CPU, memory and time here, one JSON line a tick
};

// Until SIGTERM or SIGINT, or `ticks` intervals. Done = stopped in order (on_exit obeyed); the error says why it could
// not start, or which part of the restoration failed. The caller maps it with exit_code().
Status run_daemon(const RunOptions& options);

}  // namespace osml
