// A tiny HTTP server on a thread, for tests: answers every request with what the test gave it, or badly on purpose.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace osml::testing_support {

class FakeServer {
 public:
  // Request (head and body) to the raw bytes of the answer; an empty answer is silence until the client gives up.
  using Handler = std::function<std::string(const std::string&)>;

  explicit FakeServer(Handler handler) : handler_(std::move(handler)), socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    (void)::bind(socket_, reinterpret_cast<sockaddr*>(&address), size);
    (void)::listen(socket_, 8);
    (void)::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;
  ~FakeServer() {
    stop_ = true;
    thread_.join();
    ::close(socket_);
  }

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int connections() const { return connections_; }
  [[nodiscard]] int requests() const { return requests_; }

 private:
  bool readable(int fd) const {
    while (!stop_) {
      pollfd waiting{fd, POLLIN, 0};
      if (::poll(&waiting, 1, 20) > 0) return true;
    }
    return false;
  }

  static bool complete(const std::string& request) {
    const std::size_t head = request.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    const std::size_t length = request.find("Content-Length: ");
    const std::size_t body = length < head ? std::stoul(request.substr(length + 16)) : 0;
    return request.size() >= head + 4 + body;
  }

  void serve() {
    while (readable(socket_)) {
      const int peer = ::accept(socket_, nullptr, nullptr);
      ++connections_;
      std::string request;
      char buffer[4096];
      while (readable(peer)) {
        const ssize_t got = ::recv(peer, buffer, sizeof(buffer), 0);
        if (got <= 0) break;
        request.append(buffer, static_cast<std::size_t>(got));
        if (!complete(request)) continue;
        ++requests_;
        const std::string answer = handler_(request);
        request.clear();
        if (answer.empty()) continue;
        (void)::send(peer, answer.data(), answer.size(), MSG_NOSIGNAL);
        if (answer.find("Connection: close") != std::string::npos) break;
      }
      ::close(peer);
    }
  }

  Handler handler_;
  int socket_;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int> connections_{0};
  std::atomic<int> requests_{0};
  std::thread thread_;
};

inline std::string http(int status, const std::string& type, const std::string& body, const std::string& more = "") {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + more + "\r\n" + body;
}

// The same without its length: the body ends with the connection.
inline std::string without_length(const std::string& type, const std::string& body) {
  return "HTTP/1.1 200 X\r\nContent-Type: " + type + "\r\nConnection: close\r\n\r\n" + body;
}

}  // namespace osml::testing_support
