// One persistent connection with at most one request on it. Non-blocking, edge-triggered; it never retries by itself.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "clock.h"
#include "reply.h"

namespace osml::loadgen {

class Connection {
 public:
  enum class State { Closed, Connecting, Greeting, Free, Busy };

  explicit Connection(std::unique_ptr<ReplyReader> reader) : reader_(std::move(reader)) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection(Connection&& other) = delete;
  Connection& operator=(Connection&& other) = delete;
  ~Connection() { close(); }

  [[nodiscard]] State state() const { return state_; }
  // When the request on it was due, and when it was last seen to become free.
  [[nodiscard]] Nanos scheduled() const { return scheduled_; }
  [[nodiscard]] Nanos free_since() const { return free_since_; }
  // Why the last connect failed (errno); 0: none did.
  [[nodiscard]] int connect_error() const { return connect_error_; }

  // Starts a connect and registers with epoll under `key`; false where the attempt failed at once.
  bool open(const sockaddr_in& address, int epoll, std::uint64_t key);
  void close();
  // The state must be Free. False where the connection is lost.
  bool send(std::string_view request, Nanos scheduled);

  enum class Event { Nothing, Opened, Answered, Refused, Lost };
  // What an epoll event turned out to be. The connection is closed after Lost, and after a reply with which the server
  // ended it: look at state().
  Event on_event(std::uint32_t events);

 private:
  Event connected();
  Event greeted();
  Event opened();
  bool flush();
  Event receive(bool hung_up);
  Event lost();

  std::unique_ptr<ReplyReader> reader_;
  std::string unsent_;
  int fd_ = -1;
  int connect_error_ = 0;
  State state_ = State::Closed;
  Nanos scheduled_ = 0;
  Nanos free_since_ = 0;
};

}  // namespace osml::loadgen
