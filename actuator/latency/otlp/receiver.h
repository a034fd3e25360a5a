// Requests of OTLP over HTTP, and what the specification wants them to be answered with. No sockets here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "otlp/series.h"

namespace osml::latency::otlp {

// Of a body as it comes, and unpacked. An export of all metrics of a large service has some hundred KiB.
constexpr std::size_t longest_body = std::size_t{4} << 20U;

struct Request {
  std::string method;
  std::string path;
  std::string content_type;
  std::string content_encoding;
  bool too_long = false;  // of the body, which is not here then
  std::string body;
};

struct Answer {
  int status = 200;
  std::string content_type;
  std::string body;
};

class Receiver {
 public:
  using Clock = std::function<std::uint64_t()>;  // nanoseconds since 1970
  enum class About : std::uint8_t { Request, Points, Name };
  using Complain = std::function<void(About, const std::string&)>;  // one sentence for the operator

  Receiver(Selection selection, double interval_s, Clock clock, Complain complain);

  // 200 where the request was understood; points that could not be used are counted in its partial_success. 404, 405,
  // 413, 415 and 400 otherwise, with the reason in a google.rpc.Status: then nothing of it was used.
  Answer answer(const Request& request);
  // `length_s`: since the last call.
  std::optional<Latency> take(double length_s) { return series_.take(clock_(), length_s); }

 private:
  Answer take_export(const Export& brought, bool as_json);
  void complain_of_others(const Export& brought);

  Selection selection_;
  Series series_;
  Clock clock_;
  Complain complain_;
  bool found_ = false;  // the metric, ever
};

}  // namespace osml::latency::otlp
