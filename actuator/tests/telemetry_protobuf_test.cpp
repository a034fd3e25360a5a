// Bodies of Prometheus' protobuf format: which series are read, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "prometheus_bodies.h"
#include "telemetry/prometheus_protobuf.h"
#include "telemetry/prometheus_text.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing_support::classic_message;
using testing_support::delimited;
using testing_support::delta;
using testing_support::family;
using testing_support::field;
using testing_support::metric;
using testing_support::native_of_values;
using testing_support::other_family;
using testing_support::real;
using testing_support::span;
using testing_support::varint;
using testing_support::whole;

const std::map<std::string, std::string> none;

std::string refusal(const std::string& body, const std::map<std::string, std::string>& labels = none) {
  const auto reading = parse_families(body, "rt", labels);
  return reading ? "" : reading.error().message;
}

Result<Histogram> total(const std::string& body, const std::map<std::string, std::string>& labels = none) {
  const auto reading = parse_families(body, "rt", labels);
  if (!reading) return reading.error();
  return gained_between(*reading, {});
}

const std::string two_pods =
    other_family() +
    family("rt", {metric(native_of_values(3, {0.1, 0.1, 0.1}).message(), {{"path", "/a"}, {"pod", "web-0"}}),
                  metric(native_of_values(4, {0.2}).message(), {{"path", "/a"}, {"pod", "web-1"}}),
                  metric(native_of_values(3, {5, 5}).message(), {{"path", "/b"}, {"pod", "web-0"}})}) +
    other_family();

TEST(PrometheusProtobuf, LabelsSelectSeriesAndTheRestIsSummed) {
  EXPECT_EQ(parse_families(two_pods, "rt", none)->native.size(), 3U);
  EXPECT_EQ(total(two_pods)->buckets.back().count, 6);
  const auto of_path = total(two_pods, {{"path", "/a"}});
  EXPECT_EQ(of_path->buckets.back().count, 4);
  EXPECT_DOUBLE_EQ(*of_path->sum, 0.3 + 0.2);
  EXPECT_NEAR(*quantile(*of_path, 0.99), 0.2, 0.02);
  EXPECT_EQ(total(two_pods, {{"path", "/a"}, {"pod", "web-1"}})->buckets.back().count, 1);
}

TEST(PrometheusProtobuf, OneSeriesThatIsNewOrWasResetCountsFromZero) {
  const auto read = [](const std::vector<std::string>& metrics) {
    return *parse_families(family("rt", metrics), "rt", none);
  };
  const auto of_pod = [](const std::string& pod, std::size_t n) {
    return metric(native_of_values(3, std::vector<double>(n, 0.1)).message(), {{"pod", pod}});
  };
  const auto before = read({of_pod("a", 500), of_pod("b", 20)});
  const auto after = read({of_pod("a", 600), of_pod("b", 7), of_pod("c", 3)});
  EXPECT_EQ(gained_between(after, before)->buckets.back().count, 110);
}

TEST(PrometheusProtobuf, NativeBucketsAreUsedWhereAHistogramHasBothKinds) {
  const std::string both =
      classic_message({{1.0, 4}, {2.0, 4}}, 0.4, 4) +
      native_of_values(3, {0.1, 0.1, 0.1, 0.1}).message().substr(whole(1, 4).size() + real(2, 0).size());
  const auto reading = parse_families(family("rt", {metric(both)}), "rt", none);
  ASSERT_TRUE(reading) << reading.error().message;
  EXPECT_TRUE(reading->classic.empty());
  ASSERT_EQ(reading->native.size(), 1U);
  EXPECT_NEAR(*quantile(*gained_between(*reading, {}), 0.5), 0.1, 0.01);
}

void expect_the_same_series(const Result<HistogramReading>& protobuf, const Result<ClassicSeries>& text) {
  ASSERT_TRUE(protobuf) << protobuf.error().message;
  ASSERT_TRUE(text) << text.error().message;
  ASSERT_EQ(protobuf->classic.size(), 1U);
  EXPECT_EQ(protobuf->classic.begin()->first, text->begin()->first) << "whichever format is read";
  const Histogram& one = protobuf->classic.begin()->second;
  const Histogram& other = text->begin()->second;
  ASSERT_TRUE(same_bounds(one, other));
  for (std::size_t i = 0; i < one.buckets.size(); ++i) EXPECT_EQ(one.buckets[i].count, other.buckets[i].count);
  EXPECT_EQ(one.sum, other.sum);
  EXPECT_EQ(one.count, other.count);
}

TEST(PrometheusProtobuf, ClassicBucketsAreThoseOfTheText) {
  const auto protobuf = parse_families(
      family("rt", {metric(classic_message({{0.1, 10}, {0.2, 15}}, 3.5, 20), {{"path", "/a"}})}), "rt", none);
  const auto text = parse_histograms(
      "rt_bucket{path=\"/a\",le=\"0.1\"} 10\nrt_bucket{path=\"/a\",le=\"0.2\"} 15\nrt_bucket{path=\"/a\",le=\"+Inf\"} "
      "20\nrt_sum{path=\"/a\"} 3.5\nrt_count{path=\"/a\"} 20\n",
      "rt", none);
  expect_the_same_series(protobuf, text);
  EXPECT_DOUBLE_EQ(*quantile(*gained_between(*protobuf, {}), 0.25), 0.05) << "linear";
}

// A Metric with one number, in the field of its type.
std::string single(unsigned number, double value, const testing_support::LabelPairs& labels) {
  std::string message;
  for (const auto& [name, text] : labels) message += field(1, field(1, name) + field(2, text));
  return message + field(number, real(1, value));
}

struct Single {
  std::uint64_t type;
  unsigned number;  // of the field of a Metric
};

class PrometheusParts : public testing::TestWithParam<Single> {};

// As /federate of Prometheus passes them on, and as clients write what they read elsewhere.
TEST_P(PrometheusParts, AreTheHistogramOfTheText) {
  const auto part = [](double value, const testing_support::LabelPairs& labels) {
    return single(GetParam().number, value, labels);
  };
  const std::uint64_t untyped = GetParam().type;
  const std::string body = other_family() +
                           family("rt_bucket",
                                  {part(6, {{"path", "/a"}, {"le", "0.1"}}), part(9, {{"path", "/a"}, {"le", "0.5"}}),
                                   part(10, {{"path", "/a"}, {"le", "+Inf"}}),
                                   part(4, {{"path", "/b"}, {"le", "+Inf"}}), part(4, {{"path", "/b"}, {"le", "0.1"}})},
                                  untyped) +
                           family("rt_count", {part(10, {{"path", "/a"}}), part(4, {{"path", "/b"}})}, untyped) +
                           family("rt_sum", {part(2.5, {{"path", "/a"}}), part(0.2, {{"path", "/b"}})}, untyped) +
                           family("rt_created", {part(1.7e9, {{"path", "/a"}})}, untyped);
  const auto text = parse_histograms(
      "rt_bucket{path=\"/a\",le=\"0.1\"} 6\nrt_bucket{path=\"/a\",le=\"0.5\"} 9\nrt_bucket{path=\"/a\",le=\"+Inf\"} "
      "10\n"
      "rt_count{path=\"/a\"} 10\nrt_sum{path=\"/a\"} 2.5\n",
      "rt", none);
  expect_the_same_series(parse_families(body, "rt", {{"path", "/a"}}), text);
  EXPECT_EQ(total(body)->buckets.back().count, 14);
  EXPECT_THAT(refusal(body, {{"path", "/c"}}), HasSubstr("has all configured labels"));
  EXPECT_THAT(refusal(family("rt_bucket", {part(-1, {{"le", "1"}})}, untyped)), HasSubstr("'le=1 count=-1'"));
  // Words of the service: a few, and none that a log or a terminal obeys.
  const std::string strange = refusal(family("rt_bucket", {part(1, {{"le", std::string(60'000, '\n')}})}, untyped));
  EXPECT_LT(strange.size(), 900U);
  EXPECT_EQ(strange.find('\n'), std::string::npos);
  EXPECT_THAT(refusal(family("rt_bucket", {part(1, {})}, untyped)), HasSubstr("'le= count=1'"));
}

INSTANTIATE_TEST_SUITE_P(Types, PrometheusParts, testing::Values(Single{0, 3}, Single{1, 2}, Single{3, 5}));

TEST(PrometheusProtobuf, ClassicAndNativeSeriesAreMixed) {
  const auto mixed = total(family("rt", {metric(classic_message({{1.0, 0}, {2.0, 50}}, 75, 50), {{"pod", "old"}}),
                                         metric(native_of_values(0, std::vector<double>(50, 6)).message())}));
  ASSERT_TRUE(mixed) << mixed.error().message;
  EXPECT_EQ(mixed->buckets.back().count, 100);
  EXPECT_DOUBLE_EQ(*quantile(*mixed, 0.25), 1.5);
  EXPECT_GE(*quantile(*mixed, 0.75), 4);
  EXPECT_LE(*quantile(*mixed, 0.75), 8);
  EXPECT_DOUBLE_EQ(*latency_of(*mixed, 1)->mean_ms, 3.75);
}

TEST(PrometheusProtobuf, ClassicBucketsThatAreNoLatenciesAreRefused) {
  const auto of = [](const std::string& message) { return refusal(family("rt", {metric(message)})); };
  EXPECT_THAT(of(classic_message({{-1.0, 1}, {1.0, 1}}, 1, 1)),
              HasSubstr("'le=-1 count=1', expected le from 0 to 1e18"));
  EXPECT_THAT(of(classic_message({{1.0, 1ULL << 60U}}, 1, 1)), HasSubstr("a count from 0 to 1e15"));
  EXPECT_THAT(of(classic_message({{1.0, 1}}, 1, 1ULL << 60U)), HasSubstr("a count from 0 to 1e15"));
  EXPECT_THAT(of(field(3, whole(1, 1) + real(2, std::numeric_limits<double>::quiet_NaN()))), HasSubstr("le=nan"));
  EXPECT_THAT(of(classic_message({{1.0, 1}}, 1, 1) + field(3, whole(1, 1) + real(2, 1))), HasSubstr("each bound once"));
  EXPECT_THAT(of(classic_message({}, 1, 1)),
              HasSubstr("'rt' has no finite bucket; give the histogram classic buckets"));
}

TEST(PrometheusProtobuf, ErrorsSayWhatToCheck) {
  EXPECT_THAT(refusal(other_family()), HasSubstr("there is no histogram 'rt'; check metric"));
  EXPECT_THAT(refusal(""), HasSubstr("there is no histogram 'rt'"));
  EXPECT_THAT(refusal(two_pods, {{"path", "/c"}}), HasSubstr("'rt' has all configured labels; check labels"));
  const std::string series = metric(native_of_values(3, {0.1}).message());
  EXPECT_THAT(refusal(family("rt", {series}, 0)), HasSubstr("has the type 'counter', expected a histogram"));
  EXPECT_THAT(refusal(family("rt", {series}, 5)), HasSubstr("whose counts only grow; check metric")) << "a gauge";
  EXPECT_THAT(refusal(family("rt", {series, series})), HasSubstr("has a series twice"));
}

TEST(PrometheusProtobuf, WhatIsUnknownOrOfOthersIsSkipped) {
  const std::string strange = field(1, field(1, "path") + field(2, "\xff\xfe"));  // no UTF-8
  const std::string exemplar = field(16, field(1, field(1, "trace") + field(2, "7")) + real(2, 0.1));
  const std::string body =
      delimited(field(1, "of_tomorrow") + whole(3, 99) + field(99, "x") + whole(77, 5) + real(78, 1)) +
      family("rt",
             {strange + metric(native_of_values(3, {0.1}).message() + exemplar) + whole(55, 1), field(2, real(1, 3))});
  const auto found = total(body);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->buckets.back().count, 1);
}

TEST(PrometheusProtobuf, ABodyThatIsCutOffOrBrokenIsRefusedAsAWhole) {
  const std::string whole_body = family("rt", {metric(native_of_values(3, {0.1}).message())});
  for (std::size_t end = 1; end < whole_body.size(); ++end) {
    EXPECT_THAT(refusal(whole_body.substr(0, end)), HasSubstr("not Prometheus protobuf")) << end;
  }
  const std::string message = whole_body.substr(1);
  ASSERT_EQ(delimited(message), whole_body) << "its length is one byte";
  const std::string truncated_varint(3, '\xff');
  const std::string endless_varint(20, '\xff');
  const std::vector<std::string> broken{whole_body + truncated_varint,
                                        whole_body + endless_varint,
                                        whole_body + varint(5) + "1234",
                                        varint(std::numeric_limits<std::uint64_t>::max()) + whole_body,
                                        varint((1ULL << 32U) + message.size()) + message,
                                        delimited(field(1, "rt") + whole(3, 4) + varint(4U << 3U | 2U) + varint(100) +
                                                  "x"),  // a metric beyond the family
                                        delimited(field(1, "rt") + whole(3, 4) + field(4, field(7, "\xff"))),
                                        delimited("\x07"),
                                        delimited(std::string(1, '\0')),
                                        "rt_bucket{le=\"1\"} 5\nrt_bucket{le=\"+Inf\"} 5\n",
                                        "<html>hello"};
  for (const std::string& body : broken) {
    EXPECT_THAT(refusal(body), HasSubstr("not Prometheus protobuf: the body is broken or was cut off"))
        << testing::PrintToString(body);
  }
}

TEST(PrometheusProtobuf, SeriesBucketsAndSpansHaveALimit) {
  std::string spans;
  for (int i = 0; i < 10'000'000; ++i) spans += std::string_view("\x62\x00", 2);  // an empty span
  EXPECT_THAT(refusal(family("rt", {metric(whole(1, 1) + spans)})),
              HasSubstr("a series of the histogram 'rt' has 20000"));
  spans.resize(longest_series - 100);
  EXPECT_EQ(refusal(family("rt", {metric(whole(1, 0) + spans)})), "");

  const auto many = [](std::size_t n, const std::string& message) {
    std::vector<std::string> metrics;
    for (std::size_t i = 0; i < n; ++i) metrics.push_back(metric(message, {{"a", std::to_string(i)}}));
    return family("rt", metrics);
  };
  const std::string one = native_of_values(3, {0.1}).message();
  EXPECT_EQ(refusal(many(most_series_of_service, one)), "");
  EXPECT_THAT(refusal(many(most_series_of_service + 1, one)),
              HasSubstr("more than 4096 series; select some of them with labels"));
  EXPECT_EQ(refusal(many(most_series_of_service + 1, one), {{"a", "17"}}), "");

  const std::string far_apart = whole(1, 2) + whole(5, 16) + span(0, 1) + span(1000, 1) + delta(1) + delta(0);
  const std::size_t fit = most_native_buckets * most_series_of_service / 1002;
  EXPECT_EQ(refusal(many(fit, far_apart)), "");
  EXPECT_THAT(refusal(many(fit + 1, far_apart)), HasSubstr("more than 262144 buckets together; select some of them"));
}

}  // namespace
}  // namespace osml
