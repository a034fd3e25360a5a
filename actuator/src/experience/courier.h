// Brings experiences to the server (POST /v1/experiences), in batches, now and then, and never in the way of the
// control loop: nothing here waits. What the server does not take stays in the buffer, which is bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "client/upload.h"
#include "config/config.h"
#include "experience/buffer.h"

namespace osml {

// Times are wall time.
struct CourierLimits {
  double period_s = 30;                             // between two batches that are not full
  std::size_t max_count = 256;                      // what the server takes at once
  std::size_t max_bytes = std::size_t{192} << 10U;  // below the server's default limit of 256 KiB
  double timeout_s = 10;
  double longest_wait_s = 600;  // after failures, and whatever Retry-After says
};

// What an answer means for the batch.
enum class BatchFate {
  Taken,
  TooMuch,  // half of it may be taken
  Wrong,    // something in it is; the halves tell
  Refused,  // the whole of it
  Never,    // the server stores none
  NotNow,   // a person has to do something first
  Later,
};
// The server alone refuses: what a proxy says in its place, while it is away or busy, is no reason to throw data away.
BatchFate fate_of(const HttpAnswer& answer);

class ExperienceCourier {
 public:
  // `buffer` must outlive the courier. The first batch goes out `first_s` from `now_s`.
  ExperienceCourier(const ServerConfig& server, std::string token, ExperienceBuffer& buffer, double now_s,
                    double first_s, CourierLimits limits = {});

  // Readable whenever carry() has something to do.
  [[nodiscard]] int fd() const { return upload_.fd(); }
  // Once a turn: sends what is due. All times are monotonic wall time.
  void send_due(double now_s);
  void carry(double now_s);

  // The counts go on where another courier's end: they are those of the agent, not of one configuration.
  void take_over(const ExperienceCourier& other);

  [[nodiscard]] bool under_way() const { return upload_.busy(); }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  // Refused by the server; what had no room is the buffer's to count.
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

 private:
  void settle(const HttpAnswer& answer, double now_s);
  void delivered(double now_s);
  void halve(double now_s);
  void give_up_batch(const std::string& why, double now_s);
  std::size_t forget_batch(double now_s);
  void wait(double seconds, double now_s, const std::string& why);
  [[nodiscard]] double next_wait_s() const;

  CourierLimits limits_;
  std::string url_;
  std::string token_;
  ExperienceBuffer* buffer_;
  HttpUpload upload_;
  double due_s_;
  double not_before_s_ = 0;
  std::size_t most_;                  // in a batch: half of what was refused, twice as many after a success
  std::uint64_t halved_through_ = 0;  // the newest of what was refused and goes out again in parts
  std::uint64_t last_ = 0;            // of the batch under way
  std::size_t count_ = 0;             // of the batch under way
  std::uint64_t sent_ = 0;
  std::uint64_t refused_ = 0;
  unsigned failures_ = 0;  // in a row
  std::string complaint_;  // as told last
  std::uint64_t dropped_before_ = 0;
};

}  // namespace osml
