// Log lines and StatsD timers, as datagrams.
#pragma once

#include "base/files.h"
#include "complaint.h"
#include "interval.h"
#include "source.h"

namespace osml::latency {

class Datagrams : public Source {
 public:
  Datagrams(Fd socket, Format format) : socket_(std::move(socket)), format_(std::move(format)) {}

  [[nodiscard]] int fd() const override { return socket_.get(); }
  void receive() override;
  std::optional<std::string> take(double length_s) override { return interval_.take(length_s); }

 private:
  Fd socket_;
  Format format_;
  Interval interval_;
  Complaint unread_;
};

}  // namespace osml::latency
