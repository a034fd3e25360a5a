#include "sense/perf_counters.h"

#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

namespace osml {

namespace {

Fd open_event(const PerfEvent& event, pid_t tid) {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = event.type;
  attributes.config = event.config;
  // The kernel's part needs more rights (perf_event_paranoid <= 1) and is not the service's own speed.
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return Fd(static_cast<int>(::syscall(SYS_perf_event_open, &attributes, tid, -1, -1, PERF_FLAG_FD_CLOEXEC)));
}

// Total since the counter was opened, scaled up by the share of time in which it had a hardware counter.
std::optional<double> read_event(const Fd& fd) {
  struct {
    std::uint64_t value, enabled, running;
  } reading{};
  if (!fd.valid() || ::read(fd.get(), &reading, sizeof(reading)) != static_cast<ssize_t>(sizeof(reading))) {
    return std::nullopt;
  }
  // never ran yet: it counted nothing, which is known only if it was never enabled
  if (reading.running == 0) return reading.enabled == 0 ? std::optional<double>(0.0) : std::nullopt;
  return static_cast<double>(reading.value) * static_cast<double>(reading.enabled) /
         static_cast<double>(reading.running);
}

Error refusal(int code) {
  const std::string text = std::strerror(code);
  switch (code) {
    case ENOENT:
    case EOPNOTSUPP:
      return {ErrorKind::Unsupported, "this machine has no hardware PMU (many virtual machines have none): " + text,
              code};
    case EACCES:
    case EPERM:
      return {ErrorKind::Permission,
              "perf events are not permitted: " + text +
                  "; give the agent CAP_PERFMON, or lower kernel.perf_event_paranoid",
              code};
    case ENOSYS:
      return {ErrorKind::Unsupported, "this kernel has no perf events: " + text, code};
    default:
      return errno_error(code, "perf_event_open");
  }
}

}  // namespace

PerfEvents hardware_events() {
  return {PerfEvent{PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
          PerfEvent{PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
          PerfEvent{PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES}};
}

Status probe_perf(const PerfEvents& events) {
  for (const PerfEvent& event : events) {
    if (!open_event(event, 0).valid()) return refusal(errno);
  }
  return done();
}

Status PerfCounters::follow(const std::vector<pid_t>& tids) {
  for (auto known = threads_.begin(); known != threads_.end();) {
    const bool stays = std::binary_search(tids.begin(), tids.end(), known->first);
    known = stays ? std::next(known) : threads_.erase(known);
  }
  std::optional<Error> refused;
  for (const pid_t tid : tids) {
    if (threads_.contains(tid)) continue;
    Thread thread;
    bool opened = true;
    for (std::size_t i = 0; i < events_.size() && opened; ++i) {
      thread[i].fd = open_event(events_[i], tid);
      opened = thread[i].fd.valid();
    }
    if (opened) {
      threads_.emplace(tid, std::move(thread));
    } else if (errno != ESRCH) {
      refused = refusal(errno);
    }
  }
  // half of the threads would be a wrong count, so one refusal is one for all
  if (refused) {
    threads_.clear();
    return *refused;
  }
  return done();
}

Status PerfCounters::read(const std::vector<pid_t>& tids, Counters& counters) {
  std::array<std::optional<double>, 3> sums;
  for (auto& [tid, thread] : threads_) {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const auto total = read_event(thread[i].fd);
      if (!total) continue;
      sums[i] = sums[i].value_or(0) + std::max(0.0, *total - thread[i].last);
      thread[i].last = *total;
    }
  }
  counters.instructions = sums[0];
  counters.cycles = sums[1];
  counters.llc_misses = sums[2];
  if (sums[0] && sums[1] && *sums[1] > 0) counters.ipc = *sums[0] / *sums[1];
  return follow(tids);
}

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace osml
