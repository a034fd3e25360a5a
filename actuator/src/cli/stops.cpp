#include "cli/stops.h"

#include <algorithm>
#include <cerrno>

#include "base/clock.h"

namespace osml::cli {

namespace {

constexpr double longest_nap_s = 3600;

}  // namespace

Stops::Stops() {
  sigemptyset(&set_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, signal);
  ::sigprocmask(SIG_BLOCK, &set_, nullptr);
}

bool Stops::told_until(double monotonic) {
  while (true) {
    const double left_s = std::clamp(monotonic - monotonic_s(), 0.0, longest_nap_s);
    const auto whole = static_cast<time_t>(left_s);
    const timespec wait{whole, static_cast<long>((left_s - static_cast<double>(whole)) * 1e9)};
    if (::sigtimedwait(&set_, nullptr, &wait) > 0) return true;
    if (errno != EINTR && monotonic_s() >= monotonic) return false;
  }
}

}  // namespace osml::cli
