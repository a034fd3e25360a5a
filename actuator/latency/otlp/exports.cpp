#include "otlp/exports.h"

#include <ctime>

#include "line.h"

namespace osml::latency::otlp {

namespace {

// The clock that senders take the times of their points from.
std::uint64_t wall_now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  constexpr std::uint64_t in_second = 1'000'000'000;
  return static_cast<std::uint64_t>(now.tv_sec) * in_second + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

Exports::Exports(const Selection& selection, double interval_s)
    : receiver_(selection, interval_s, wall_now_ns,
                [this](Receiver::About about, const std::string& text) { complaints_[about].say(text); }) {}

Result<std::unique_ptr<Exports>> Exports::open(Fd listener, const Selection& selection, double interval_s) {
  std::unique_ptr<Exports> made(new Exports(selection, interval_s));  // not make_unique: the constructor is private
  auto server = Server::open(std::move(listener),
                             [exports = made.get()](const Request& one) { return exports->receiver_.answer(one); });
  if (!server) return server.error();
  made->server_ = std::move(*server);
  return made;
}

std::optional<std::string> Exports::take(double length_s) {
  const auto latency = receiver_.take(length_s);
  return latency ? std::optional(line_of(*latency, length_s)) : std::nullopt;
}

}  // namespace osml::latency::otlp
