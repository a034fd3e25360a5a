#include "daemon/wakeups.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>

#include "base/clock.h"

namespace osml {

namespace {

timespec to_timespec(double seconds) {
  const double whole = std::floor(seconds);
  constexpr double ns_per_s = 1e9;
  return {static_cast<time_t>(whole), static_cast<long>((seconds - whole) * ns_per_s)};
}

Status watch(const Fd& epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) return errno_error(errno, "epoll_ctl");
  return done();
}

Status repeat(const Fd& timer, double interval_s) {
  itimerspec when{};
  when.it_value = when.it_interval = to_timespec(interval_s);
  if (::timerfd_settime(timer.get(), 0, &when, nullptr) != 0) return errno_error(errno, "timerfd");
  return done();
}

std::optional<Wakeup> pending_signal(const Fd& signals) {
  std::optional<Wakeup> found;
  signalfd_siginfo info{};
  while (::read(signals.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    if (info.ssi_signo != SIGHUP) return Wakeup{Wakeup::Kind::Stop, 0};
    found = Wakeup{Wakeup::Kind::Reload, 0};
  }
  return found;
}

// How often a timer has expired since the last look.
std::uint64_t expired(const Fd& timer) {
  std::uint64_t times = 0;
  return ::read(timer.get(), &times, sizeof(times)) == static_cast<ssize_t>(sizeof(times)) ? times : 0;
}

// Each of them can be due always: a turn may last longer than its interval. So whoever was served last comes last.
constexpr std::array in_turn = {Wakeup::Kind::Tick, Wakeup::Kind::Watchdog, Wakeup::Kind::Poll, Wakeup::Kind::Courier};

}  // namespace

Result<Wakeups> Wakeups::open() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return errno_error(errno, "sigprocmask");
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  Fd polls(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  Fd watchdog(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  Fd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!epoll.valid() || !timer.valid() || !polls.valid() || !watchdog.valid() || !signals.valid()) {
    return errno_error(errno, "cannot open epoll, timerfd or signalfd");
  }
  for (const Fd* fd : {&timer, &polls, &watchdog, &signals}) {
    if (Status watched = watch(epoll, fd->get()); !watched) return watched.error();
  }
  return Wakeups(std::move(epoll), std::move(timer), std::move(polls), std::move(watchdog), std::move(signals));
}

Status Wakeups::start_polls(double interval_s) { return repeat(polls_, interval_s); }

Status Wakeups::start_watchdog(double interval_s) { return repeat(watchdog_, interval_s); }

Status Wakeups::start_timer(double delay_s, double interval_s) {
  // 1 us at least: a time of zero would disarm the timer
  constexpr double soonest_s = 1e-6;
  itimerspec when{};
  when.it_value = to_timespec(monotonic_s() + std::max(delay_s, soonest_s));
  when.it_interval = to_timespec(interval_s);
  if (::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr) != 0) return errno_error(errno, "timerfd");
  return done();
}

Status Wakeups::watch_courier(int fd) { return watch(epoll_, fd); }

std::optional<Wakeup> Wakeups::take(Wakeup::Kind kind, bool courier) const {
  if (kind == Wakeup::Kind::Courier) return courier ? std::optional(Wakeup{kind, 1}) : std::nullopt;
  const bool tick = kind == Wakeup::Kind::Tick;
  const std::uint64_t times = expired(tick ? timer_ : kind == Wakeup::Kind::Poll ? polls_ : watchdog_);
  return times > 0 ? std::optional(Wakeup{kind, times}) : std::nullopt;
}

Result<Wakeup> Wakeups::wait() {
  while (true) {
    std::array<epoll_event, 16> events{};
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) return errno_error(errno, "epoll_wait");
    if (const auto signal = pending_signal(signals_)) return *signal;
    bool courier = false;
    for (int i = 0; i < count; ++i) {
      const int fd = events.at(static_cast<std::size_t>(i)).data.fd;
      courier = courier || (fd != signals_.get() && fd != timer_.get() && fd != polls_.get() && fd != watchdog_.get());
    }
    for (std::size_t i = 0; i < in_turn.size(); ++i) {
      const std::size_t place = (next_ + i) % in_turn.size();
      const auto wakeup = take(in_turn.at(place), courier);
      if (!wakeup) continue;
      next_ = place + 1;
      return *wakeup;
    }
  }
}

}  // namespace osml
