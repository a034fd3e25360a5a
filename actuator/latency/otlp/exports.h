// Exports of OpenTelemetry as a source of latencies.
#pragma once

#include <map>
#include <memory>

#include "complaint.h"
#include "otlp/receiver.h"
#include "otlp/server.h"
#include "source.h"

namespace osml::latency::otlp {

class Exports : public Source {
 public:
  static Result<std::unique_ptr<Exports>> open(Fd listener, const Selection& selection, double interval_s);

  [[nodiscard]] int fd() const override { return server_->fd(); }
  [[nodiscard]] double most_wait_s() const override { return server_->most_wait_s(); }
  void receive() override { server_->run(); }
  std::optional<std::string> take(double length_s) override;

 private:
  Exports(const Selection& selection, double interval_s);

  std::map<Receiver::About, Complaint> complaints_;  // one of a kind does not hide the others
  Receiver receiver_;
  std::unique_ptr<Server> server_;
};

}  // namespace osml::latency::otlp
