#include "experience/buffer.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace osml {

namespace {

constexpr std::string_view head = R"({"experiences":[)";
constexpr std::string_view tail = "]}";
constexpr std::string_view before_key = R"({"before":)";
constexpr std::string_view between_key = R"(,"decision":)";
constexpr std::string_view after_key = R"(,"after":)";

}  // namespace

std::size_t Experience::bytes() const {
  constexpr std::size_t brace_and_comma = 2;
  return before->size() + decision.size() + after->size() + before_key.size() + between_key.size() + after_key.size() +
         brace_and_comma;
}

void ExperienceBuffer::push(Experience experience) {
  if (closed_) return;
  bytes_ += experience.bytes();
  waiting_.push_back(std::move(experience));
  while (!waiting_.empty() && (waiting_.size() > limits_.count || bytes_ > limits_.bytes)) {
    pop();
    ++dropped_;
  }
}

void ExperienceBuffer::pop() {
  bytes_ -= waiting_.front().bytes();
  waiting_.pop_front();
  ++first_;
}

std::optional<ExperienceBuffer::Batch> ExperienceBuffer::batch(std::size_t max_count, std::size_t max_bytes) const {
  if (waiting_.empty()) return std::nullopt;
  std::size_t bytes = head.size() + tail.size() + waiting_.front().bytes();
  std::size_t count = 1;
  while (count < std::min(max_count, waiting_.size()) && bytes + waiting_[count].bytes() <= max_bytes) {
    bytes += waiting_[count++].bytes();
  }
  Batch batch{"", first_ + count - 1, count};
  batch.body.reserve(bytes);
  batch.body += head;
  for (std::size_t i = 0; i < count; ++i) {
    const Experience& experience = waiting_[i];
    if (i > 0) batch.body += ',';
    ((batch.body += before_key) += *experience.before) += between_key;
    ((batch.body += experience.decision) += after_key) += *experience.after;
    batch.body += '}';
  }
  batch.body += tail;
  return batch;
}

std::size_t ExperienceBuffer::forget_through(std::uint64_t last) {
  const std::size_t before = waiting_.size();
  while (!waiting_.empty() && first_ <= last) pop();
  return before - waiting_.size();
}

void ExperienceBuffer::take_over(ExperienceBuffer& other, bool wanted) {
  dropped_ += other.dropped_;
  if (!wanted) dropped_ += other.waiting_.size();
  while (!other.waiting_.empty()) {
    Experience oldest = std::move(other.waiting_.front());
    other.waiting_.pop_front();
    if (wanted) push(std::move(oldest));
  }
  other.bytes_ = 0;
}

void ExperienceBuffer::close() {
  closed_ = true;
  dropped_ += waiting_.size();
  waiting_.clear();
  bytes_ = 0;
}

}  // namespace osml
