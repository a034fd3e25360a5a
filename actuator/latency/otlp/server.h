// HTTP/1.1 by libmicrohttpd, in the thread that calls: no request waits for another one's client. Connections, time and
// memory that clients can have are bounded; where there is too little, who has had it longest gives way.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>

#include "base/files.h"
#include "base/result.h"
#include "otlp/receiver.h"

struct MHD_Connection;
struct MHD_Daemon;

namespace osml::latency::otlp {

// What clients can have of this program.
struct Limits {
  unsigned connections = 128;
  std::size_t body = longest_body;
  std::size_t held = 2 * longest_body;  // of all bodies that are not whole yet
  double request_s = 10;
  double idle_s = 75;  // SDKs export once a minute unless they are told otherwise
};

class Server {
 public:
  using Handle = std::function<Answer(const Request&)>;

  // `listener` is a listening socket that never waits.
  static Result<std::unique_ptr<Server>> open(Fd listener, Handle handle, const Limits& limits = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Readable where there is something to do.
  [[nodiscard]] int fd() const { return fd_; }
  // Seconds after which run() shall be called in any case.
  [[nodiscard]] double most_wait_s() const;
  // Does what can be done without waiting.
  void run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Exchange {
    Request request;
    std::size_t received = 0;
  };
  struct Peer {
    int fd = -1;
    Clock::time_point since;  // it came, or the request began that is under way, or the last one ended
    std::unique_ptr<Exchange> exchange;
    bool cut = false;
  };
  struct Callbacks;

  Server(Handle handle, const Limits& limits) : handle_(std::move(handle)), limits_(limits) {}
  void opened(MHD_Connection* connection, int fd);
  void closed(MHD_Connection* connection) { peers_.erase(connection); }
  // False: the connection shall end.
  bool receive(MHD_Connection* connection, std::string_view part);
  Answer finish(MHD_Connection* connection);
  void completed(MHD_Connection* connection);
  void drop_body(Peer& peer);
  void cut(Peer& peer);
  // The one that waits longest, of those that `wanted` is true for.
  Peer* oldest(const std::function<bool(const Peer&)>& wanted);
  void cut_slow();

  Handle handle_;
  Limits limits_;
  MHD_Daemon* daemon_ = nullptr;
  int fd_ = -1;
  std::map<MHD_Connection*, Peer> peers_;
  std::size_t held_ = 0;
};

}  // namespace osml::latency::otlp
