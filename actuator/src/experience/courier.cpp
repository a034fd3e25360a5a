#include "experience/courier.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "client/decision_client.h"
#include "client/server_words.h"

namespace osml {

namespace {

std::string words_of(const HttpAnswer& answer) {
  return "HTTP " + std::to_string(answer.status) + ": " + server_message(answer.body).value_or(describe(answer));
}

}  // namespace

BatchFate fate_of(const HttpAnswer& answer) {
  const bool own_words = server_message(answer.body).has_value();
  switch (answer.status) {
    case 413:  // no matter who says so: it stays too large
      return BatchFate::TooMuch;
    case 400:
    case 422:
      return own_words ? BatchFate::Wrong : BatchFate::Later;
    case 404:
    case 405:
      return own_words ? BatchFate::Never : BatchFate::Later;
    case 401:
    case 403:
      return BatchFate::NotNow;
    case 408:  // too slow
    case 425:  // too early
    case 429:
      return BatchFate::Later;
    default:
      break;
  }
  if (answer.status >= 200 && answer.status < 300) return BatchFate::Taken;
  return own_words && answer.status >= 400 && answer.status < 500 ? BatchFate::Refused : BatchFate::Later;
}

ExperienceCourier::ExperienceCourier(const ServerConfig& server, std::string token, ExperienceBuffer& buffer,
                                     double now_s, double first_s, CourierLimits limits)
    : limits_(limits),
      url_(server.url + "/v1/experiences"),
      token_(std::move(token)),
      buffer_(&buffer),
      upload_({.timeout_s = limits.timeout_s, .max_bytes = std::size_t{64} << 10U, .tls = paths_of(server)}),
      due_s_(now_s + first_s),
      most_(limits.max_count) {}

void ExperienceCourier::take_over(const ExperienceCourier& other) {
  sent_ += other.sent_;
  refused_ += other.refused_;
  dropped_before_ = buffer_->dropped();
}

void ExperienceCourier::send_due(double now_s) {
  if (upload_.busy() || now_s < not_before_s_ || buffer_->size() == 0) return;
  const bool full = buffer_->bytes() >= limits_.max_bytes || buffer_->size() >= limits_.max_count;
  if (!full && now_s < due_s_) return;
  auto batch = buffer_->batch(most_, limits_.max_bytes);
  last_ = batch->last;
  count_ = batch->count;
  if (const Status started = upload_.start({.url = url_, .body = std::move(batch->body), .token = token_}); !started) {
    wait(next_wait_s(), now_s, started.error().message);
  }
}

void ExperienceCourier::carry(double now_s) {
  const auto answer = upload_.progress();
  if (!answer) return;
  if (answer->ok()) {
    settle(**answer, now_s);
  } else {
    wait(next_wait_s(), now_s, answer->error().message);
  }
}

void ExperienceCourier::settle(const HttpAnswer& answer, double now_s) {
  switch (fate_of(answer)) {
    case BatchFate::Taken:
      return delivered(now_s);
    case BatchFate::TooMuch:
      return count_ > 1 ? halve(now_s)
                        : give_up_batch("HTTP 413: one experience is larger than the server accepts", now_s);
    case BatchFate::Wrong:
      return count_ > 1 ? halve(now_s) : give_up_batch(words_of(answer), now_s);
    case BatchFate::Refused:
      return give_up_batch(words_of(answer), now_s);
    case BatchFate::Never:
      spdlog::info(
          "the server does not store experiences (HTTP {}); the agent sends none until its next start or reload",
          answer.status);
      return buffer_->close();
    case BatchFate::NotNow:
      return wait(limits_.longest_wait_s, now_s, words_of(answer));
    case BatchFate::Later:
      return wait(std::clamp(answer.retry_after_s.value_or(next_wait_s()), 1.0, limits_.longest_wait_s), now_s,
                  words_of(answer));
  }
}

void ExperienceCourier::delivered(double now_s) {
  sent_ += forget_batch(now_s);
  most_ = std::min(2 * most_, limits_.max_count);
  if (failures_ > 0) {
    spdlog::info("the server accepts experiences again; the agent dropped {} because its buffer was full",
                 buffer_->dropped() - dropped_before_);
  }
  failures_ = 0;
  complaint_.clear();
  dropped_before_ = buffer_->dropped();
}

void ExperienceCourier::halve(double now_s) {
  most_ = count_ / 2;
  halved_through_ = std::max(halved_through_, last_);
  due_s_ = now_s;
}

void ExperienceCourier::give_up_batch(const std::string& why, double now_s) {
  if (why != complaint_) spdlog::warn("{} answered {}; the agent dropped {} experiences", url_, why, count_);
  complaint_ = why;
  refused_ += forget_batch(now_s);
  not_before_s_ = now_s + limits_.period_s;  // the next one may be refused as well
}

// How many there were: the buffer may have dropped some of the batch meanwhile, which count there.
std::size_t ExperienceCourier::forget_batch(double now_s) {
  const std::size_t forgotten = buffer_->forget_through(last_);
  // what is left of a batch that was halved does not wait
  due_s_ = last_ < halved_through_ ? now_s : now_s + limits_.period_s;
  return forgotten;
}

double ExperienceCourier::next_wait_s() const {
  // 30 s, 60 s, 120 s, ...
  constexpr unsigned most_doublings = 10;
  const double seconds = limits_.period_s * static_cast<double>(1U << std::min(failures_, most_doublings));
  return std::min(seconds, limits_.longest_wait_s);
}

void ExperienceCourier::wait(double seconds, double now_s, const std::string& why) {
  if (failures_ == 0) {
    spdlog::warn("the agent cannot send {} experiences: {}; the next attempt is in {:.0f} s", buffer_->size(), why,
                 seconds);
  }
  ++failures_;
  not_before_s_ = now_s + seconds;
}

}  // namespace osml
