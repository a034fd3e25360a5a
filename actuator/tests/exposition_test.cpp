// Formats of metrics endpoints: what the agent asks for, and what it makes of the answer.
#include "telemetry/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>

#include "fake_server.h"
#include "prometheus_bodies.h"
#include "telemetry/latency_sources.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing_support::FakeServer;
using testing_support::family;
using testing_support::http;
using testing_support::metric;
using testing_support::native_of_values;
using testing_support::NativeBody;

const std::string protobuf =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

std::string body_of(const NativeBody& body) { return family("rt", {metric(body.message())}); }

Result<HistogramReading> read(const std::string& content_type, const std::string& body, bool of_pod = false) {
  return read_exposition({200, content_type, body, {}}, {"http://service/metrics", "rt", {}, 1000.0, of_pod});
}

TEST(Exposition, TheContentTypeSaysWhichFormatABodyHas) {
  const std::string body = body_of(native_of_values(3, {0.1}));
  for (const std::string& type :
       {protobuf, protobuf + "; escaping=underscores", std::string("application/vnd.google.protobuf"),
        std::string("Application/VND.Google.Protobuf ;encoding=delimited")}) {
    const auto reading = read(type, body);
    ASSERT_TRUE(reading) << type << reading.error().message;
    EXPECT_EQ(reading->native.size(), 1U);
  }
  const std::string text = "rt_bucket{le=\"1\"} 5\nrt_bucket{le=\"+Inf\"} 5\n";
  for (const char* type : {"text/plain; version=0.0.4", "text/plain", "application/openmetrics-text; version=1.0.0", "",
                           "application/octet-stream", "application/vnd.google.protobuf-text"}) {
    const auto reading = read(type, text);
    ASSERT_TRUE(reading) << type << reading.error().message;
    EXPECT_EQ(reading->classic.size(), 1U);
  }
  EXPECT_THAT(read(protobuf, text).error().message, HasSubstr("not Prometheus protobuf"));
  EXPECT_THAT(read("text/plain", body).error().message, HasSubstr("not Prometheus text"));
}

TEST(Exposition, APodMayHaveFewerSeriesInBothFormats) {
  std::vector<std::string> metrics;
  std::string text;
  for (std::size_t i = 0; i <= most_series_of_pod; ++i) {
    metrics.push_back(metric(native_of_values(3, {0.1}).message(), {{"a", std::to_string(i)}}));
    text += "rt_bucket{a=\"" + std::to_string(i) + "\",le=\"1\"} 1\n";
  }
  EXPECT_THAT(read(protobuf, family("rt", metrics), true).error().message, HasSubstr("more than 256 series"));
  EXPECT_THAT(read("text/plain", text, true).error().message, HasSubstr("more than 256 series"));
  EXPECT_TRUE(read(protobuf, family("rt", metrics)));
}

// An endpoint that negotiates as client libraries do.
class NegotiationTest : public testing::Test {
 protected:
  void serve(const NativeBody& body, const std::string& text) {
    const std::lock_guard lock(mutex_);
    protobuf_ = http(200, protobuf, body_of(body));
    text_ = http(200, "text/plain; version=0.0.4", text);
  }
  std::string answer(const std::string& request) {
    const std::lock_guard lock(mutex_);
    request_ = request;
    const bool asked = request.find("application/vnd.google.protobuf") != std::string::npos;
    return asked && knows_protobuf_ ? protobuf_ : text_;
  }
  Result<Latency> next() { return source_.read({++turn_, 0, 2.0}); }

  std::mutex mutex_;
  bool knows_protobuf_ = true;
  std::string request_;
  std::string protobuf_;
  std::string text_;
  std::uint64_t turn_ = 0;
  FakeServer server_{[this](const std::string& request) { return answer(request); }};
  PrometheusLatency source_{{server_.url() + "/metrics", "rt", {}, 1000.0}, std::make_shared<MetricsScrape>(2.0)};
};

const std::string only_infinite = "rt_bucket{le=\"+Inf\"} 150\nrt_sum 1\nrt_count 150\n";

TEST_F(NegotiationTest, ProtobufIsAskedForAndItsPercentilesAreOfTheLastInterval) {
  NativeBody body = native_of_values(3, std::vector<double>(5000, 4.0));
  serve(body, only_infinite);
  EXPECT_THAT(next().error().message, HasSubstr("first reading"));
  EXPECT_THAT(request_, HasSubstr("Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
                                  "encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3,*/*;q=0.1\r\n"));
  for (int i = 0; i < 150; ++i) body.observe(0.010);
  serve(body, only_infinite);
  const auto latency = next();
  ASSERT_TRUE(latency) << latency.error().message;
  EXPECT_NEAR(*latency->p50_ms, 10, 0.9);
  EXPECT_NEAR(*latency->p99_ms, 10, 0.9);
  EXPECT_NEAR(*latency->mean_ms, 10, 1e-6);
  EXPECT_EQ(latency->samples, 150U);
  EXPECT_EQ(latency->requests_per_s, 75.0);
  EXPECT_EQ(latency->age_s, 0.0);
  EXPECT_THAT(next().error().message, HasSubstr("no request"));
  serve(native_of_values(3, {0.5}), only_infinite);
  EXPECT_EQ(next()->samples, 1U) << "after a restart";
}

TEST_F(NegotiationTest, AnEndpointThatKnowsTextOnlyIsReadAsText) {
  knows_protobuf_ = false;
  serve({}, "rt_bucket{le=\"0.01\"} 100\nrt_bucket{le=\"+Inf\"} 100\n");
  EXPECT_FALSE(next());
  serve({}, "rt_bucket{le=\"0.01\"} 120\nrt_bucket{le=\"+Inf\"} 120\n");
  const auto latency = next();
  ASSERT_TRUE(latency) << latency.error().message;
  EXPECT_DOUBLE_EQ(*latency->p50_ms, 5.0);
  EXPECT_EQ(latency->samples, 20U);
}

TEST_F(NegotiationTest, WhatIsRefusedNamesTheEndpoint) {
  NativeBody body = native_of_values(3, {0.1});
  body.schema = -53;
  serve(body, only_infinite);
  EXPECT_THAT(next().error().message,
              HasSubstr(server_.url() + "/metrics: the native histogram 'rt' has the schema -53"));
}

}  // namespace
}  // namespace osml
