#include "datagrams.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace osml::latency {

Datagrams::Datagrams(Fd socket, Format format) : socket_(std::move(socket)), format_(std::move(format)) {
  constexpr int on = 1;  // where it does not go, nobody knows what was dropped
  (void)::setsockopt(socket_.get(), SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on));
}

void Datagrams::receive() {
  // Whoever may send could otherwise keep the interval from its end. The rest waits in the socket, or is lost there.
  constexpr int most_datagrams = 1024;
  constexpr auto most_time = std::chrono::milliseconds(50);
  constexpr std::size_t longest_datagram = 65536;
  static std::array<char, longest_datagram> buffer{};
  const auto until = std::chrono::steady_clock::now() + most_time;
  for (int count = 0; count < most_datagrams && std::chrono::steady_clock::now() < until; ++count) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(dropped_))> control{};
    iovec part{buffer.data(), buffer.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t length = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return;
    note_dropped(message);
    hear({buffer.data(), static_cast<std::size_t>(length)});
  }
}

// Each datagram says how many were dropped before it.
void Datagrams::note_dropped(const msghdr& message) {
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SO_RXQ_OVFL) return;
  std::uint32_t dropped = 0;
  std::memcpy(&dropped, CMSG_DATA(header), sizeof(dropped));
  const std::uint32_t more = dropped - std::exchange(dropped_, dropped);  // also where the count began anew
  if (more == 0) return;
  dropped_in_interval_ += more;
  no_room_.say("the kernel dropped " + std::to_string(more) +
               " datagrams, for which the socket had no room; raise net.core.rmem_max and restart osml-latency");
}

void Datagrams::hear(std::string_view datagram) {
  ++read_in_interval_;
  const bool any = read_requests(datagram, format_, [this](const Request& request) { interval_.add(request); });
  found_ = found_ || any;
  // Beside latencies a service may send what has none: other metrics, or requests without an answer.
  if (found_ || has_no_answer(datagram, format_)) return;
  const std::string expected = format_.statsd ? format_.name + ":NUMBER|ms" : format_.name + "=NUMBER";
  unread_.say("a datagram has no latency, expected " + expected + "; check the log format of the service");
}

std::optional<std::string> Datagrams::take(double length_s) {
  const double came = std::exchange(read_in_interval_, 0);
  const double dropped = std::exchange(dropped_in_interval_, 0);
  return interval_.take(length_s, came > 0 ? (came + dropped) / came : 1);
}

}  // namespace osml::latency
