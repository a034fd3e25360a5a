// A server in a thread that answers one request at a time after a fixed time: a queue whose waiting is known.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace osml::loadgen {

class FakeServer {
 public:
  // Speaks just enough of redis: every read that ends a request is answered with `reply`.
  explicit FakeServer(std::chrono::microseconds service_time, std::string reply = "+OK\r\n")
      : service_time_(service_time), reply_(std::move(reply)), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* general = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, general, size) != 0 || ::listen(listener_, 64) != 0) std::abort();
    ::getsockname(listener_, general, &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeServer() {
    stop_ = true;
    thread_.join();
    for (const auto& each : polled_) ::close(each.fd);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void hang_up() { hang_up_ = true; }
  void stand_still(bool still) { still_ = still; }

 private:
  void serve() {
    polled_.push_back({listener_, POLLIN, 0});
    while (!stop_) {
      ::poll(polled_.data(), polled_.size(), 10);
      if (still_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      for (std::size_t i = 1; i < polled_.size(); ++i) answer(polled_[i]);
      if ((polled_[0].revents & POLLIN) != 0) polled_.push_back({::accept(listener_, nullptr, nullptr), POLLIN, 0});
      hang_up_ = false;
    }
  }
  void answer(pollfd& client) {
    if (hang_up_) {
      ::close(client.fd);
      client.fd = -1;  // poll ignores it
    }
    if (client.fd < 0 || (client.revents & POLLIN) == 0) return;
    std::array<char, 4096> buffer{};
    if (::recv(client.fd, buffer.data(), buffer.size(), 0) <= 0) {
      ::close(client.fd);
      client.fd = -1;
      return;
    }
    std::this_thread::sleep_for(service_time_);
    ::send(client.fd, reply_.data(), reply_.size(), MSG_NOSIGNAL);
  }

  std::chrono::microseconds service_time_;
  std::string reply_;
  int listener_;
  std::uint16_t port_ = 0;
  std::vector<pollfd> polled_;
  std::atomic<bool> stop_{false}, hang_up_{false}, still_{false};
  std::thread thread_;
};

}  // namespace osml::loadgen
