#include <cmath>

#include "otlp/receiver.h"
#include "targets.h"

namespace osml::fuzz {

namespace {

using latency::otlp::Request;

// The corpus has points of this moment.
constexpr std::uint64_t now_ns = 1'700'000'000'000'000'000;

void check(const Latency& latency) {
  for (const auto& value : {latency.p50_ms, latency.p95_ms, latency.p99_ms, latency.requests_per_s}) {
    promise(value && std::isfinite(*value) && *value >= 0, "a percentile is a number from 0 on");
  }
  promise(!latency.mean_ms || (std::isfinite(*latency.mean_ms) && *latency.mean_ms >= 0), "a mean too, or missing");
  promise(*latency.p50_ms <= *latency.p95_ms && *latency.p95_ms <= *latency.p99_ms, "percentiles ascend");
  promise(latency.samples && *latency.samples > 0, "a latency is that of requests");
}

}  // namespace

void otlp(std::string_view bytes) {
  if (bytes.empty()) return;
  const char encoding = bytes.front();
  const bool as_json = encoding == 'j' || encoding == 'J';
  const bool packed = encoding == 'J' || encoding == 'P';
  const Request request{"POST",
                        "/v1/metrics",
                        as_json ? "application/json" : "application/x-protobuf",
                        packed ? "gzip" : "",
                        false,
                        std::string(bytes.substr(1))};
  latency::otlp::Receiver receiver(
      {"rt", {}, 1000}, 1.0, [] { return now_ns; },
      [](latency::otlp::Receiver::About /*about*/, const std::string& sentence) {
        promise(!sentence.empty() && sentence.size() < 1200, "a complaint is one sentence");
      });
  for (int turn = 0; turn < 2; ++turn) {
    const auto answer = receiver.answer(request);
    promise(answer.status == 200 || answer.status == 400 || answer.status == 413, "an answer of the specification");
    promise(answer.content_type == request.content_type, "in the same encoding");
    if (const auto latency = receiver.take(1.0)) check(*latency);
  }
}

}  // namespace osml::fuzz
