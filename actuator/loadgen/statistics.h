// What was measured of one service, over one interval or one phase, and how it is written down.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "histogram.h"

namespace osml::loadgen {

class Statistics {
 public:
  explicit Statistics(Nanos start) : start_(start) {}

  // A reply: from the time the request was due, so that waiting for a free connection is part of it.
  void answered(Nanos latency) {
    latency_.record(latency);
    ++answered_;
  }
  // A request that is still without a reply: its age is a lower bound of its latency, and leaving it out would make a
  // server that stands still look fast.
  void overdue(Nanos age) { latency_.record(age); }
  // How late this program was itself: sent minus the later of due and connection free.
  void sent(Nanos lateness) { lateness_.record(lateness); }
  void failed() { ++errors_; }
  // A request that nobody waits for any longer, an error too.
  void give_up() {
    ++errors_;
    ++given_up_;
  }
  [[nodiscard]] std::uint64_t given_up() const { return given_up_; }
  void restart(Nanos start);

  // Keys: interval_s, mean_ms, p50_ms, p95_ms, p99_ms, requests_per_s, samples, lateness_p50_ms, lateness_p99_ms,
  // errors. A percentile without samples is null.
  [[nodiscard]] nlohmann::json to_json(Nanos now) const;
  // The latencies as pairs [middle of a bucket in ms, samples], ascending, without the empty buckets.
  [[nodiscard]] nlohmann::json latencies() const;

 private:
  Histogram latency_;
  Histogram lateness_;
  std::uint64_t answered_ = 0;
  std::uint64_t errors_ = 0;
  std::uint64_t given_up_ = 0;
  Nanos start_;
};

}  // namespace osml::loadgen
