#include "target.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

namespace osml::loadgen {
namespace {

constexpr Nanos kFirstBackoff = 10 * kMillisecond;
constexpr Nanos kLongestBackoff = kSecond;
constexpr Nanos kCheckEvery = 100 * kMillisecond;  // giving up need not be exact

}  // namespace

Target::Target(ServiceSpec spec, std::uint64_t seed, int epoll, std::uint32_t index, Nanos now)
    : spec_(std::move(spec)),
      workload_(make_workload(spec_.protocol, spec_.host, spec_.requests)),
      mix_(seed ^ 0x6d6978U),
      schedule_(spec_.rate, seed, now),
      interval_(now),
      phase_(now),
      interval_start_(now),
      epoll_(epoll),
      index_(index) {
  slots_.reserve(spec_.connections);
  for (unsigned i = 0; i < spec_.connections; ++i) {
    slots_.push_back({std::make_unique<Connection>(workload_->make_reader()), 0, 0});
  }
  free_.reserve(std::size_t{2} * spec_.connections);
  reconnect(now);
}

Nanos Target::next_event() const { return std::min(schedule_.next(), next_check_); }

void Target::advance(Nanos now) {
  while (schedule_.next() <= now) {
    const Nanos due = schedule_.pop();
    asked_ever_ = true;
    if (waiting_.size() < kMaxWaiting) {
      waiting_.push_back(due);
    } else {
      abandon();
    }
  }
  dispatch();
  if (next_check_ <= now) {
    give_up(now);
    reconnect(now);
    next_check_ = now + kCheckEvery;
  }
}

void Target::dispatch() {
  while (!waiting_.empty() && !free_.empty()) {
    const std::uint32_t i = free_.back();
    free_.pop_back();
    Slot& slot = slots_[i];
    if (slot.connection->state() != Connection::State::Free) continue;
    const Nanos due = waiting_.front();
    waiting_.pop_front();
    const std::string_view request = workload_->next_request(mix_);
    const Nanos now = clock_now();
    const Nanos lateness = now - std::max(due, slot.connection->free_since());
    interval_.sent(lateness);
    phase_.sent(lateness);
    if (!slot.connection->send(request, due)) {
      failed();
      lose(slot, now);
    }
  }
}

void Target::on_event(std::uint32_t connection, std::uint32_t events) {
  if (connection >= slots_.size()) return;
  Slot& slot = slots_[connection];
  // A server may end an idle connection; a request or a connect that it cuts off is an error.
  const bool in_use = slot.connection->state() != Connection::State::Free;
  const auto event = slot.connection->on_event(events);
  if (event == Connection::Event::Nothing) return;
  const Nanos now = clock_now();
  if (event == Connection::Event::Answered) {
    interval_.answered(now - slot.connection->scheduled());
    phase_.answered(now - slot.connection->scheduled());
    slot.backoff = 0;
  }
  if (event == Connection::Event::Answered || event == Connection::Event::Refused) {
    answered_lately_ = answered_ever_ = true;
  }
  if (event == Connection::Event::Refused || (event == Connection::Event::Lost && in_use)) failed();
  if (slot.connection->state() == Connection::State::Free) {
    free_.push_back(connection);
    dispatch();
  } else {
    lose(slot, now);
    if (event == Connection::Event::Answered) {  // ended in order, as a server without keep-alive does: no backoff
      slot.backoff = 0;
      slot.retry_at = now;
      next_check_ = now;
    }
  }
}

void Target::failed() {
  interval_.failed();
  phase_.failed();
  failed_lately_ = failed_ever_ = true;
}

void Target::abandon() {
  interval_.give_up();
  phase_.give_up();
  failed_lately_ = failed_ever_ = true;
}

void Target::lose(Slot& slot, Nanos now) {
  slot.connection->close();
  connect_error_ = slot.connection->connect_error();
  slot.backoff = std::clamp(slot.backoff * 2, kFirstBackoff, kLongestBackoff);
  slot.retry_at = now + slot.backoff;
  next_check_ = std::min(next_check_, slot.retry_at);
}

// A server that went away is an error every time that it is looked for in vain, not only for the requests it took
// along.
void Target::reconnect(Nanos now) {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.connection->state() != Connection::State::Closed || slot.retry_at > now) continue;
    const std::uint64_t key = (std::uint64_t{index_} << 32U) | i;
    if (!slot.connection->open(spec_.address, epoll_, key)) {
      failed();
      lose(slot, now);
    }
  }
}

void Target::give_up(Nanos now) {
  while (!waiting_.empty() && now - waiting_.front() > kGiveUp) {
    waiting_.pop_front();
    abandon();
  }
  for (Slot& slot : slots_) {
    if (slot.connection->state() != Connection::State::Busy || now - slot.connection->scheduled() <= kGiveUp) continue;
    abandon();
    lose(slot, now);
  }
}

void Target::count_overdue(Nanos now) {
  const Nanos length = now - interval_start_;
  for (const Nanos due : waiting_) {
    if (now - due < length) break;
    interval_.overdue(now - due);
  }
  for (const Slot& slot : slots_) {
    const bool busy = slot.connection->state() == Connection::State::Busy;
    if (busy && now - slot.connection->scheduled() >= length) interval_.overdue(now - slot.connection->scheduled());
  }
}

std::size_t Target::unanswered() const {
  const auto busy = [](const Slot& slot) { return slot.connection->state() == Connection::State::Busy; };
  return waiting_.size() + static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), busy));
}

std::string Target::no_answer() const {
  const std::string place = spec_.host.empty() ? std::string() : " from " + spec_.host;
  const std::string why = connect_error_ == 0 ? std::string() : std::string(" (") + std::strerror(connect_error_) + ")";
  return spec_.name + ": no answer" + place + why;
}

std::optional<std::string> Target::silence() {
  const bool silent = failed_lately_ && !answered_lately_;
  failed_lately_ = answered_lately_ = false;
  return silent ? std::optional(no_answer()) : std::nullopt;
}

std::optional<std::string> Target::never_answered() const {
  const bool waits = failed_ever_ || unanswered() > 0;
  return asked_ever_ && waits && !answered_ever_ ? std::optional(no_answer()) : std::nullopt;
}

std::string Target::interval_line(Nanos now) {
  count_overdue(now);
  nlohmann::json line = interval_.to_json(now);
  line["t"] = to_seconds(now);
  line["offered_per_s"] = schedule_.rate();
  line["waiting"] = waiting_.size();
  interval_.restart(now);
  interval_start_ = now;
  return line.dump() + "\n";
}

nlohmann::json Target::phase(Nanos now) {
  nlohmann::json result = phase_.to_json(now);
  result["offered_per_s"] = schedule_.rate();
  result["unanswered"] = unanswered();
  result["given_up"] = phase_.given_up();
  result["histogram"] = phase_.latencies();
  phase_.restart(now);
  return result;
}

}  // namespace osml::loadgen
