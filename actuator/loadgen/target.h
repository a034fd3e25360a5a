// One service under load: its schedule, the requests that wait for a free connection, and its connections.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "connection.h"
#include "schedule.h"
#include "spec.h"
#include "statistics.h"

namespace osml::loadgen {

class Target {
 public:
  // A request without an answer this long after it was due counts as an error; so does one that finds kMaxWaiting
  // requests before it.
  static constexpr Nanos kGiveUp = 10 * kSecond;
  static constexpr std::size_t kMaxWaiting = 200'000;

  // `epoll` outlives the target; events of connection i carry the key `index << 32 | i`.
  Target(ServiceSpec spec, std::uint64_t seed, int epoll, std::uint32_t index, Nanos now);

  [[nodiscard]] const std::string& name() const { return spec_.name; }
  [[nodiscard]] const std::string& output() const { return spec_.output; }
  // When advance() has to be called again at the latest.
  [[nodiscard]] Nanos next_event() const;
  // Everything that is due: requests, reconnects, giving up.
  void advance(Nanos now);
  void on_event(std::uint32_t connection, std::uint32_t events);
  void set_rate(double rate, Nanos now) { schedule_.set_rate(rate, now); }

  // One sentence where requests failed and none was answered since the last call; else nothing.
  std::optional<std::string> silence();
  // The same over the whole run, for its end.
  [[nodiscard]] std::optional<std::string> never_answered() const;

  // The telemetry line of the interval that ends now (with newline); starts the next interval.
  std::string interval_line(Nanos now);
  // The same keys over everything since the last mark. Besides, how many requests have no answer yet, and how many were
  // given up: those are not among its latencies. Starts the next phase.
  nlohmann::json phase(Nanos now);

 private:
  struct Slot {
    std::unique_ptr<Connection> connection;
    Nanos retry_at = 0;
    Nanos backoff = 0;
  };

  void dispatch();
  void failed();
  void abandon();
  void lose(Slot& slot, Nanos now);
  void reconnect(Nanos now);
  void give_up(Nanos now);
  void count_overdue(Nanos now);
  [[nodiscard]] std::size_t unanswered() const;
  [[nodiscard]] std::string no_answer() const;

  ServiceSpec spec_;
  std::unique_ptr<Workload> workload_;
  Random mix_;
  PoissonSchedule schedule_;
  std::deque<Nanos> waiting_;  // due times, oldest first
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;  // may hold slots that were closed meanwhile; checked when taken
  Statistics interval_;
  Statistics phase_;
  Nanos interval_start_;
  Nanos next_check_ = 0;
  bool failed_lately_ = false;    // since the last silence()
  bool answered_lately_ = false;  // an error of the server is an answer, too
  bool asked_ever_ = false;
  bool failed_ever_ = false;
  bool answered_ever_ = false;
  int connect_error_ = 0;
  int epoll_;
  std::uint32_t index_;
};

}  // namespace osml::loadgen
