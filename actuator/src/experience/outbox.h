// Buffer, collector and courier of one session, wired.
#pragma once

#include <string>
#include <utility>

#include "experience/buffer.h"
#include "experience/collector.h"
#include "experience/courier.h"

namespace osml {

class ExperienceOutbox {
 public:
  // `source` must outlive the outbox; the rest as for the courier.
  ExperienceOutbox(DecisionSource& source, const ServerConfig& server, std::string token, double now_s, double first_s)
      : collector_(source, buffer_), courier_(server, std::move(token), buffer_, now_s, first_s) {}

  // Goes on where the outbox of the configuration before ends; `wanted`: what waits there can be sent from here.
  void take_over(ExperienceOutbox& before, bool wanted) {
    buffer_.take_over(before.buffer_, wanted);
    courier_.take_over(before.courier_);
    if (wanted) collector_.take_over(before.collector_);
  }

  // No experiences are sent any more: what waits is dropped, and counted.
  void close() { buffer_.close(); }

  // The source of decisions that the loop shall ask.
  DecisionSource& source() { return collector_; }
  ExperienceCourier& courier() { return courier_; }
  [[nodiscard]] const ExperienceCourier& courier() const { return courier_; }
  [[nodiscard]] const ExperienceBuffer& buffer() const { return buffer_; }

 private:
  ExperienceBuffer buffer_;
  ExperienceCollector collector_;
  ExperienceCourier courier_;
};

}  // namespace osml
