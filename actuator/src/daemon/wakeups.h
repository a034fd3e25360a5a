// What wakes the daemon: the timers and signals, by one epoll. Between two wake-ups it costs nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "base/files.h"
#include "base/result.h"

namespace osml {

struct Wakeup {
  enum class Kind { Tick, Poll, Courier, Watchdog, Reload, Stop } kind = Kind::Tick;
  std::uint64_t ticks = 1;  // turns that are due; more than one: the last turn took longer than the interval
};

class Wakeups {
 public:
  // Blocks SIGTERM, SIGINT and SIGHUP for the process from here on: they arrive by wait().
  static Result<Wakeups> open();

  // First turn after `delay_s`, then every `interval_s`, both wall time, on a fixed grid: no drift.
  Status start_timer(double delay_s, double interval_s);
  // A second timer, for the software regulator; 0 stops it.
  Status start_polls(double interval_s);
  // A third one, for signs of life to the service manager; 0 = none.
  Status start_watchdog(double interval_s);
  // Another descriptor to wake up for; it leaves by being closed.
  Status watch_courier(int fd);
  // Sleeps until something is due. Signals come first, Stop before Reload. The others are served in rotation, so that
  // none of them keeps another away.
  Result<Wakeup> wait();

 private:
  Wakeups(Fd epoll, Fd timer, Fd polls, Fd watchdog, Fd signals)
      : epoll_(std::move(epoll)),
        timer_(std::move(timer)),
        polls_(std::move(polls)),
        watchdog_(std::move(watchdog)),
        signals_(std::move(signals)) {}
  // Where that kind is due now. `courier`: one of its descriptors is.
  [[nodiscard]] std::optional<Wakeup> take(Wakeup::Kind kind, bool courier) const;

  Fd epoll_;
  Fd timer_;
  Fd polls_;
  Fd watchdog_;
  Fd signals_;
  std::size_t next_ = 0;  // whose turn it is
};

}  // namespace osml
