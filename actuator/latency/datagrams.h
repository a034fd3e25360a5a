// Log lines and StatsD timers, as datagrams.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string_view>

#include "base/files.h"
#include "complaint.h"
#include "interval.h"
#include "source.h"

namespace osml::latency {

class Datagrams : public Source {
 public:
  Datagrams(Fd socket, Format format);

  [[nodiscard]] int fd() const override { return socket_.get(); }
  void receive() override;
  // What the kernel dropped counts in the rate like what was read.
  std::optional<std::string> take(double length_s) override;

 private:
  void hear(std::string_view datagram);
  void note_dropped(const msghdr& message);

  Fd socket_;
  Format format_;
  Interval interval_;
  bool found_ = false;         // a latency, ever
  std::uint32_t dropped_ = 0;  // ever, as the kernel counts
  double read_in_interval_ = 0;
  double dropped_in_interval_ = 0;
  Complaint unread_;
  Complaint no_room_;
};

}  // namespace osml::latency
