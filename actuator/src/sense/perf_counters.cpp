#include "sense/perf_counters.h"

#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "base/number.h"

namespace osml {

namespace {

// Three descriptors each, and each of them is read in every interval.
constexpr std::size_t most_counted = 2048;
// Of the time of all threads. One that ran for a moment says little of the others.
constexpr double most_unknown = 0.01;

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

std::optional<PerfReading> read_event(const Fd& fd) {
  PerfReading reading;
  if (!fd.valid() || ::read(fd.get(), &reading, sizeof(reading)) != static_cast<ssize_t>(sizeof(reading))) {
    return std::nullopt;
  }
  return reading;
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

std::optional<double> counted_between(const PerfReading& before, const PerfReading& now) {
  const auto enabled = static_cast<double>(now.enabled - before.enabled);
  const auto running = static_cast<double>(now.running - before.running);
  if (enabled == 0) return 0.0;  // the thread did not run
  if (running == 0) return std::nullopt;
  return static_cast<double>(now.value - before.value) * enabled / running;
}

void PerfSum::add(const PerfReading& before, const PerfReading& now) {
  const auto counted = counted_between(before, now);
  const auto enabled = static_cast<double>(now.enabled - before.enabled);
  sum_ = sum_.value_or(0) + counted.value_or(0);
  enabled_ += enabled;
  unknown_ += counted ? 0 : enabled;
}

std::optional<double> PerfSum::value() const {
  if (!sum_ || !known()) return std::nullopt;
  return unknown_ == 0 ? *sum_ : *sum_ * enabled_ / (enabled_ - unknown_);
}

Status PerfSum::known() const {
  if (unknown_ <= most_unknown * enabled_) return done();
  constexpr double percent = 100;
  return Error{ErrorKind::Busy,
               "no hardware counter was free in " + format_number(std::ceil(unknown_ / enabled_ * percent)) +
                   " % of the time of the threads, expected at most 1 %; stop other programs that count "
                   "hardware events, or set kernel.nmi_watchdog to 0"};
}

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
  if (tids.size() > most_counted) {
    threads_.clear();
    return Error{ErrorKind::Capacity,
                 "the service has " + std::to_string(tids.size()) + " threads, the agent counts at most " +
                     std::to_string(most_counted),
                 0};
  }
  std::array<PerfSum, 3> sums;
  for (auto& [tid, thread] : threads_) {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const auto reading = read_event(thread[i].fd);
      if (reading) sums[i].add(std::exchange(thread[i].last, *reading), *reading);
    }
  }
  counters.instructions = sums[0].value();
  counters.cycles = sums[1].value();
  counters.llc_misses = sums[2].value();
  if (counters.instructions && counters.cycles && *counters.cycles > 0) {
    counters.ipc = *counters.instructions / *counters.cycles;
  }
  if (Status followed = follow(tids); !followed) return followed;
  for (const PerfSum& sum : sums) {
    if (Status known = sum.known(); !known) return known;
  }
  return done();
}

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace osml
