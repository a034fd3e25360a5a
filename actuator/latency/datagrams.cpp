#include "datagrams.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>

namespace osml::latency {

void Datagrams::receive() {
  // Whoever may send could otherwise keep the interval from its end. The rest waits in the socket, or is lost there.
  constexpr int most_datagrams = 1024;
  constexpr auto most_time = std::chrono::milliseconds(50);
  constexpr std::size_t longest_datagram = 65536;
  static std::array<char, longest_datagram> buffer{};
  const auto until = std::chrono::steady_clock::now() + most_time;
  for (int count = 0; count < most_datagrams && std::chrono::steady_clock::now() < until; ++count) {
    const ssize_t length = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return;
    const std::string_view text(buffer.data(), static_cast<std::size_t>(length));
    const bool any = read_requests(text, format_, [this](const Request& request) { interval_.add(request); });
    if (!any) {
      const std::string expected = format_.statsd ? format_.name + ":NUMBER|ms" : format_.name + "=NUMBER";
      unread_.say("a datagram has no latency, expected " + expected + "; check the log format of the service");
    }
  }
}

}  // namespace osml::latency
