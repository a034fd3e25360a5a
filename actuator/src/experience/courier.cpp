#include "experience/courier.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "client/decision_client.h"
#include "client/server_words.h"

namespace osml {

namespace {

constexpr long bad_request = 400;
constexpr long no_such_route = 404;
constexpr long no_such_method = 405;
constexpr long too_large = 413;
constexpr long invalid = 422;

std::string words_of(const HttpAnswer& answer) {
  return "HTTP " + std::to_string(answer.status) + ": " + server_message(answer.body).value_or(describe(answer));
}

}  // namespace

ExperienceCourier::ExperienceCourier(const ServerConfig& server, std::string token, ExperienceBuffer& buffer,
                                     double now_s, double first_s, CourierLimits limits)
    : limits_(limits),
      url_(server.url + "/v1/experiences"),
      token_(std::move(token)),
      buffer_(&buffer),
      upload_({.timeout_s = limits.timeout_s, .max_bytes = std::size_t{64} << 10U, .tls = paths_of(server)}),
      due_s_(now_s + first_s),
      max_count_(limits.max_count) {}

void ExperienceCourier::take_over(const ExperienceCourier& other) {
  sent_ += other.sent_;
  refused_ += other.refused_;
  dropped_before_ = buffer_->dropped();
}

void ExperienceCourier::send_due(double now_s) {
  if (upload_.busy() || now_s < not_before_s_ || buffer_->size() == 0) return;
  const bool full = buffer_->bytes() >= limits_.max_bytes || buffer_->size() >= limits_.max_count;
  if (!full && !part_ && now_s < due_s_) return;
  auto batch = buffer_->batch(part_.value_or(max_count_), limits_.max_bytes);
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
  const long status = answer.status;
  if (status >= 200 && status < 300) {
    delivered(now_s);
  } else if ((status == no_such_route || status == no_such_method) && server_message(answer.body)) {
    // in the server's own words: a proxy, whose server is away for a moment, has others
    spdlog::info("the server does not store experiences (HTTP {}); the agent sends none until its next start or reload",
                 status);
    buffer_->close();
  } else if (status == too_large) {
    split_or_give_up(now_s);
  } else if (status == bad_request || status == invalid) {
    find_wrong_one(words_of(answer), now_s);
  } else if (status == 429 || status == 503) {
    const double asked_s = std::clamp(answer.retry_after_s.value_or(next_wait_s()), 1.0, limits_.longest_wait_s);
    wait(asked_s, now_s, words_of(answer));
  } else if (status == 401 || status == 403) {
    wait(limits_.longest_wait_s, now_s, words_of(answer));
  } else if (status >= 400 && status < 500 && status != no_such_route && status != no_such_method) {
    give_up_batch(words_of(answer), now_s);
  } else {
    wait(next_wait_s(), now_s, words_of(answer));
  }
}

void ExperienceCourier::delivered(double now_s) {
  buffer_->forget_through(last_);
  sent_ += count_;
  due_s_ = part_ ? now_s : now_s + limits_.period_s;  // what is left of a refused batch does not wait
  part_.reset();
  if (failures_ > 0) {
    spdlog::info("the server accepts experiences again; the agent dropped {} because its buffer was full",
                 buffer_->dropped() - dropped_before_);
  }
  failures_ = 0;
  complaint_.clear();
  dropped_before_ = buffer_->dropped();
}

void ExperienceCourier::split_or_give_up(double now_s) {
  if (count_ > 1) {
    max_count_ = count_ / 2;
    return;
  }
  give_up_batch("HTTP 413: one experience is larger than the server accepts", now_s);
}

void ExperienceCourier::find_wrong_one(const std::string& why, double now_s) {
  if (count_ > 1) {
    part_ = count_ / 2;
    return;
  }
  part_.reset();
  give_up_batch(why, now_s);
}

void ExperienceCourier::give_up_batch(const std::string& why, double now_s) {
  if (why != complaint_) spdlog::warn("{} answered {}; the agent dropped {} experiences", url_, why, count_);
  complaint_ = why;
  refused_ += count_;
  buffer_->forget_through(last_);
  not_before_s_ = now_s + limits_.period_s;  // the next one may be refused as well
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
