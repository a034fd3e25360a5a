// What requests are answered with.
#include <gmock/gmock.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "otlp/receiver.h"
#include "otlp/unpack.h"
#include "otlp/wire.h"
#include "otlp_bodies.h"

namespace osml::latency::otlp {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace): this file is about nothing else
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t t0 = 1'700'000'000 * second;

std::string packed(const std::string& text, int header = 15 + 16) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, header, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class ReceiverTest : public testing::Test {
 protected:
  Answer post(const std::string& body, const std::string& type = "application/x-protobuf",
              const std::string& encoding = "") {
    return receiver_.answer({"POST", "/v1/metrics", type, encoding, false, body});
  }
  // The request number `second` of a service with 100 requests a second.
  static std::string export_at(std::uint64_t seconds) {
    return request_of({point({100 * seconds, 0, 0, 0}, 0.5 * static_cast<double>(seconds), t0, t0 + seconds * second)});
  }
  static proto::Status status_of(const Answer& answer) {
    proto::Status status;
    EXPECT_TRUE(status.ParseFromString(answer.body));
    return status;
  }

  std::uint64_t now_ = t0 + second;
  std::vector<std::string> said_;
  Receiver receiver_{
      {}, 1.0, [this] { return now_; }, [this](Receiver::About, const std::string& text) { said_.push_back(text); }};
};

TEST_F(ReceiverTest, AnExportIsAnsweredWithAnEmptyMessageAndBecomesALatency) {
  const Answer answer = post(export_at(1));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.content_type, "application/x-protobuf");
  EXPECT_EQ(answer.body, "");
  EXPECT_EQ(receiver_.take(1.0)->samples, 100U);
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(ReceiverTest, JsonIsAnsweredInJson) {
  const Answer answer = post("{}", "Application/JSON; charset=utf-8");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.content_type, "application/json");
  EXPECT_EQ(answer.body, "{}");
}

TEST_F(ReceiverTest, PointsThatWereLeftOutAreAPartialSuccessInBothEncodings) {
  auto bad = point({1, 2, 3, 4}, 1.5, t0, t0 + second);
  bad.set_count(5);
  proto::ExportMetricsServiceResponse response;
  const Answer answer = post(request_of({bad, point({1, 2, 3, 4}, 1.5, t0, t0 + second)}));
  EXPECT_EQ(answer.status, 200);
  ASSERT_TRUE(response.ParseFromString(answer.body));
  EXPECT_EQ(response.partial_success().rejected_data_points(), 1);
  EXPECT_THAT(response.partial_success().error_message(), HasSubstr("do not add up to its count 5"));
  EXPECT_THAT(said_, ElementsAre(HasSubstr("do not add up")));
  EXPECT_EQ(receiver_.take(1.0)->samples, 10U);  // the other one counts

  const std::string as_json =
      R"({"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"http.server.request.duration",
    "gauge":{"dataPoints":[{},{}]}}]}]}]})";
  const auto said = nlohmann::json::parse(post(as_json, "application/json").body);
  EXPECT_EQ(said["partialSuccess"]["rejectedDataPoints"], "2");
  EXPECT_THAT(said["partialSuccess"]["errorMessage"], HasSubstr("is no histogram"));
}

TEST_F(ReceiverTest, PackedBodiesAreTheSame) {
  EXPECT_EQ(post(packed(export_at(1)), "application/x-protobuf", "gzip").status, 200);
  now_ += second;
  EXPECT_EQ(post(packed(export_at(2), 15), "application/x-protobuf", "deflate").status, 200);
  now_ += second;
  EXPECT_EQ(post(packed(export_at(3)), "application/x-protobuf", "GZIP").status, 200);
  EXPECT_EQ(receiver_.take(1.0)->samples, 300U);
}

TEST_F(ReceiverTest, WhatIsNotUnderstoodIsRefusedWithAReasonInTheSameEncoding) {
  const std::string type = "application/x-protobuf";
  const std::string body = export_at(1);
  const std::vector<std::tuple<Request, int, std::string>> cases{
      {{"POST", "/v1/traces", type, "", false, body}, 404, "the path is '/v1/traces', expected /v1/metrics"},
      {{"GET", "/v1/metrics", type, "", false, ""}, 405, "the method is 'GET', expected POST"},
      {{"POST", "/v1/metrics", type, "br", false, body}, 415, "encoding is 'br', expected gzip, deflate or none"},
      {{"POST", "/v1/metrics", type, "gzip", false, body}, 400, "not compressed with gzip"},
      {{"POST", "/v1/metrics", type, "gzip", false, packed(body) + "x"}, 400, "not whole"},
      {{"POST", "/v1/metrics", type, "gzip", false, packed(body).substr(0, 30)}, 400, "not whole"},
      {{"POST", "/v1/metrics", type, "", true, ""}, 413, "expected at most 4194304 bytes"},
      {{"POST", "/v1/metrics", type, "", false, "garbage"}, 400, "no ExportMetricsServiceRequest"},
  };
  for (const auto& [request, status, words] : cases) {
    const Answer answer = receiver_.answer(request);
    EXPECT_EQ(answer.status, status) << words;
    EXPECT_EQ(answer.content_type, type);
    EXPECT_THAT(status_of(answer).message(), HasSubstr(words));
  }
  EXPECT_FALSE(receiver_.take(1.0));
  for (const std::string other : {"", "text/plain", "multipart/form-data"}) {
    const Answer answer = post(body, other);
    EXPECT_EQ(answer.status, 415);
    EXPECT_THAT(nlohmann::json::parse(answer.body)["message"], HasSubstr("expected application/x-protobuf or"));
  }
  EXPECT_EQ(post("[", "application/json").status, 400);
}

TEST_F(ReceiverTest, ABombIsUnpackedUpToTheLimitOnly) {
  const std::string bomb = packed(std::string(64 << 20, '\0'));
  EXPECT_LT(bomb.size(), 100'000U);
  EXPECT_EQ(post(bomb, "application/x-protobuf", "gzip").status, 413);
  std::string text;
  EXPECT_EQ(unpack(bomb, 1000, text), Unpacked::TooLong);
  EXPECT_LE(text.size(), 1000U);
  EXPECT_EQ(post(packed(std::string(longest_json + 1, ' ')), "application/json", "gzip").status, 413);
  EXPECT_EQ(post(std::string(longest_json + 1, ' '), "application/json").status, 413);
}

TEST_F(ReceiverTest, AnOperatorWhoNamedTheWrongMetricHearsWhichThereAre) {
  const auto data = points<proto::HistogramDataPoint>({point({1, 0, 0, 0}, 1, t0, t0 + second)}, cumulative);
  (void)post(request({metric("http.server.duration\n", "ms", histogram, data)}));
  EXPECT_THAT(said_,
              ElementsAre("an export has no histogram 'http.server.request.duration' with the wanted attributes, "
                          "but has 'http.server.duration?'; check --name and --attribute"));
  (void)post(export_at(1));
  (void)post(request({metric("other", "ms", histogram, data)}));  // now and then a service has no requests
  EXPECT_EQ(said_.size(), 1U);
}

TEST_F(ReceiverTest, BytesThatAreNoTextComeBackAsQuestionMarks) {
  const Answer found = receiver_.answer({"POST", "/\xff", "application/json", "", false, "{}"});
  EXPECT_EQ(found.status, 404);
  EXPECT_THAT(found.body, testing::HasSubstr("the path is '/?'"));
  EXPECT_EQ(receiver_.answer({"POST", "/v1/metrics", "application/json", "\xff", false, "{}"}).status, 415);
}

}  // namespace
}  // namespace osml::latency::otlp
