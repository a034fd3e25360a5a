// Latencies of requests as servers write them: in a line of their log, or as a StatsD timer.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace osml::latency {

// One or more requests of the same latency.
struct Request {
  double latency_ms = 0;
  double count = 1;  // a StatsD client that sends one of ten says so
};

using Take = std::function<void(const Request&)>;

// What a datagram is written in.
struct Format {
  bool statsd = false;
  std::string name = "osml";  // the key before "=", or the StatsD metric
  double unit_ms = 1000.0;    // milliseconds in one unit of the number
};

// Hands each latency of a datagram to `take`; false where there is none.
// Log: the number after "NAME=", wherever that word begins; once a line, and the sum of a list as nginx writes it.
// StatsD: lines NAME:VALUE[:VALUE...]|ms[|@RATE][|#...], and the types h and d.
// A latency that is negative (HAProxy's "no answer"), no number or above a day is none.
bool read_requests(std::string_view datagram, const Format& format, const Take& take);
// Whether a log line says of its request that there is no latency: "-", or a negative number.
bool has_no_answer(std::string_view line, const Format& format);

}  // namespace osml::latency
