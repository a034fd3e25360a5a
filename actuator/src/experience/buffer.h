// Experiences that wait for the server, as JSON text: bounded in number and bytes, the oldest go first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

namespace osml {

// What was observed, what was decided on it, and what was observed after it (osml/domain/experience.py). The
// observation after one decision is the one before the next: both share its text.
struct Experience {
  std::shared_ptr<const std::string> before;
  std::string decision;
  std::shared_ptr<const std::string> after;

  // As it stands in a batch.
  [[nodiscard]] std::size_t bytes() const;
};

struct BufferLimits {
  std::size_t count = 1024;
  std::size_t bytes = std::size_t{4} << 20U;
};

class ExperienceBuffer {
 public:
  explicit ExperienceBuffer(BufferLimits limits = {}) : limits_(limits) {}

  // Drops the oldest where there is no more room.
  void push(Experience experience);
  // The oldest ones as the body of POST /v1/experiences, within both limits but at least one; none where it is empty.
  struct Batch {
    std::string body;
    std::uint64_t last = 0;  // number of the newest in it
    std::size_t count = 0;
  };
  [[nodiscard]] std::optional<Batch> batch(std::size_t max_count, std::size_t max_bytes) const;
  // Of a batch that is settled; what was dropped meanwhile is gone already, and does not count in the answer.
  std::size_t forget_through(std::uint64_t last);
  // Goes on in the place of another: with what was lost there, and with what waits there or, where it can't be sent any
  // more, one more loss each.
  void take_over(ExperienceBuffer& other, bool wanted);
  // Nobody wants them: forgets all, takes no more.
  void close();

  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] std::size_t size() const { return waiting_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  // Lost for want of room, or because the server takes none any more, ever.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  void pop();

  BufferLimits limits_;
  std::deque<Experience> waiting_;
  std::uint64_t first_ = 0;  // number of waiting_.front()
  std::size_t bytes_ = 0;
  std::uint64_t dropped_ = 0;
  bool closed_ = false;
};

}  // namespace osml
