// Where latencies come from, and where the agent reads what they say.
#pragma once

#include <string>

#include "base/files.h"
#include "base/result.h"

namespace osml::latency {

// A socket that receives: "udp:ADDRESS:PORT" (an IPv4 address) or "unix:PATH". The file of a Unix socket gets mode
// 0666, as /dev/log has it; one that a crash left is replaced. Input for anything else, Busy where another process
// listens.
Result<Fd> listen_at(const std::string& endpoint);
// A listening TCP socket that never waits: "http:ADDRESS:PORT" (an IPv4 address). Input for anything else.
Result<Fd> listen_http(const std::string& endpoint);

// Takes telemetry lines.
class Outlet {
 public:
  // "unix:PATH": the agent's datagram socket. "file:PATH": lines are appended, to a new file where that was moved away.
  static Result<Outlet> open(const std::string& endpoint);
  // Never waits. Gone, with what to do, where a socket takes nothing or a disk is full: they may do so later.
  Status send(const std::string& line);

 private:
  Status append(const std::string& line);
  Outlet(fs::path path, bool to_socket, Fd fd) : path_(std::move(path)), to_socket_(to_socket), fd_(std::move(fd)) {}

  fs::path path_;
  bool to_socket_;
  Fd fd_;
};

}  // namespace osml::latency
