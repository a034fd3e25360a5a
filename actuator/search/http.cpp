#include "http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

namespace osml::search {
namespace {

constexpr std::size_t kLongestRequest = 8192;
using Handler = std::function<Reply(const std::string&)>;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const int lower = std::tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string_view reason(int status) { return status == 200 ? "OK" : status == 404 ? "Not Found" : "Bad Request"; }

bool send_reply(int fd, const Reply& reply) {
  std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " ";
  text.append(reason(reply.status)).append("\r\nContent-Type: application/json\r\nContent-Length: ");
  text.append(std::to_string(reply.body.size())).append("\r\n\r\n").append(reply.body);
  return send_all(fd, text);
}

// "GET /search?q=x HTTP/1.1" -> "/search?q=x"; empty for any other method or form.
std::string target_of(std::string_view head) {
  const auto line = head.substr(0, head.find("\r\n"));
  const auto second = line.rfind(' ');
  if (!line.starts_with("GET ") || second <= 4 || !line.substr(second).starts_with(" HTTP/1.")) return {};
  return std::string(line.substr(4, second - 4));
}

void converse(int fd, const Handler& handler) {
  std::string received;
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto end = received.find("\r\n\r\n");
    if (end != std::string::npos) {
      const std::string target = target_of(received);
      received.erase(0, end + 4);
      if (!send_reply(fd, target.empty() ? Reply{400, "{}"} : handler(target))) return;
      continue;
    }
    if (received.size() > kLongestRequest) return;
    const auto got = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (got <= 0) return;
    received.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

std::optional<std::string> query_of(std::string_view target) {
  constexpr std::string_view kBegin = "/search?q=";
  if (!target.starts_with(kBegin)) return std::nullopt;
  target.remove_prefix(kBegin.size());
  std::string query;
  for (std::size_t i = 0; i < target.size() && target[i] != '&'; ++i) {
    if (target[i] == '%' && i + 2 < target.size() && digit_of(target[i + 1]) >= 0 && digit_of(target[i + 2]) >= 0) {
      query += static_cast<char>(16 * digit_of(target[i + 1]) + digit_of(target[i + 2]));
      i += 2;
    } else {
      query += target[i] == '+' ? ' ' : target[i];
    }
  }
  return query;
}

int serve(unsigned port, unsigned threads, const std::function<Handler()>& make_handler) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* general = reinterpret_cast<const sockaddr*>(&address);  // NOLINT(*-reinterpret-cast): the API's type
  if (listener < 0 || ::bind(listener, general, sizeof address) != 0 || ::listen(listener, 64) != 0) {
    std::cerr << "osml-search: cannot listen on port " << port << ": " << std::strerror(errno) << '\n';
    return 1;
  }
  std::vector<std::jthread> workers;
  for (unsigned i = 0; i < threads; ++i) {
    workers.emplace_back([listener, &make_handler] {
      const Handler handler = make_handler();
      for (;;) {
        const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0) continue;
        const int no_delay = 1;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, sizeof no_delay);
        converse(fd, handler);
        ::close(fd);
      }
    });
  }
  return 0;  // after the workers, that is: never
}

}  // namespace osml::search
