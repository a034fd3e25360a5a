// Both encodings of requests, and which points are selected.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

#include "otlp/gather.h"
#include "otlp/wire.h"
#include "otlp_bodies.h"

namespace osml::latency::otlp {
namespace {

using namespace testing_support;  // NOLINT(google-build-using-namespace): this file is about nothing else
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<Pair> search{{"service.name", "search"}, {"host.name", "a"}};

Export read(const std::string& body, const Selection& selection = {}) {
  auto brought = read_protobuf(body, selection);
  EXPECT_TRUE(brought) << brought.error().message;
  return brought ? *brought : Export{};
}

Export read_as_json(const nlohmann::json& body, const Selection& selection = {}) {
  auto brought = read_json(body.dump(), selection);
  EXPECT_TRUE(brought) << brought.error().message;
  return brought ? *brought : Export{};
}

nlohmann::json json_point() {
  return {{"attributes", {{{"key", "http.route"}, {"value", {{"stringValue", "/q"}}}}}},
          {"startTimeUnixNano", "1000000000"},
          {"timeUnixNano", "2000000000"},
          {"count", "10"},
          {"sum", 1.5},
          {"bucketCounts", {"1", "2", "3", "4"}},
          {"explicitBounds", {0.01, 0.1, 1}},
          {"unheardOf", {1, 2}}};
}

nlohmann::json json_request(const nlohmann::json& metric) {
  return {{"resourceMetrics",
           {{{"resource", {{"attributes", {{{"key", "service.name"}, {"value", {{"stringValue", "search"}}}}}}}},
             {"scopeMetrics", {{{"scope", {{"name", "http"}}}, {"metrics", {metric}}}}}}}}};
}

nlohmann::json json_of(const nlohmann::json& point) {
  return json_request(
      {{"name", duration}, {"unit", "s"}, {"histogram", {{"dataPoints", {point}}, {"aggregationTemporality", 2}}}});
}

std::vector<double> counts_of(const Point& point) {
  std::vector<double> counts;
  for (const Bucket& bucket : std::get<Histogram>(point.value).buckets) counts.push_back(bucket.count);
  return counts;
}

TEST(Wire, APointOfAHistogramInMilliseconds) {
  const Export brought = read(request_of({point({1, 2, 3, 4}, 1.5, second, 2 * second)}, cumulative, search));
  ASSERT_EQ(brought.points.size(), 1U);
  const Point& one = brought.points.front();
  EXPECT_TRUE(one.cumulative);
  EXPECT_EQ(one.start_ns, second);
  EXPECT_EQ(one.time_ns, 2 * second);
  const auto& value = std::get<Histogram>(one.value);
  EXPECT_EQ(value.buckets[0].upper, 10);
  EXPECT_TRUE(std::isinf(value.buckets[3].upper));
  EXPECT_THAT(counts_of(one), ElementsAre(1, 3, 6, 10));
  EXPECT_EQ(*value.sum, 1500);
}

TEST(Wire, JsonSaysTheSame) {
  const Export in_json = read_as_json(json_of(json_point()));
  const Export in_bytes = read(request_of({point({1, 2, 3, 4}, 1.5, second, 2 * second, {{"http.route", "/q"}})},
                                          cumulative, {{"service.name", "search"}}));
  ASSERT_EQ(in_json.points.size(), 1U);
  EXPECT_EQ(in_json.points[0].identity, in_bytes.points[0].identity);
  EXPECT_EQ(in_json.points[0].time_ns, in_bytes.points[0].time_ns);
  EXPECT_EQ(counts_of(in_json.points[0]), counts_of(in_bytes.points[0]));
  EXPECT_EQ(std::get<Histogram>(in_json.points[0].value).sum, std::get<Histogram>(in_bytes.points[0].value).sum);
}

TEST(Wire, ExponentialHistogramsInBothEncodings) {
  proto::ExponentialHistogramDataPoint message;
  message.set_start_time_unix_nano(second);
  message.set_time_unix_nano(2 * second);
  message.set_count(6);
  message.set_sum(9);
  message.set_scale(-2);
  message.set_zero_count(1);
  message.mutable_positive()->set_offset(-3);
  for (const std::uint64_t count : {2U, 3U}) message.mutable_positive()->add_bucket_counts(count);
  const Export in_bytes =
      read(request({metric(duration, "ms", exponential_histogram, points<decltype(message)>({message}, delta))}));
  const Export in_json =
      read_as_json(json_request({{"name", duration},
                                 {"unit", "ms"},
                                 {"exponentialHistogram",
                                  {{"aggregationTemporality", 1},
                                   {"dataPoints",
                                    {{{"startTimeUnixNano", 1000000000},
                                      {"timeUnixNano", "2000000000"},
                                      {"count", 6},
                                      {"sum", "9"},
                                      {"scale", -2},
                                      {"zeroCount", "1"},
                                      {"positive", {{"offset", -3}, {"bucketCounts", {2, "3"}}}},
                                      {"negative", {{"offset", 0}, {"bucketCounts", nlohmann::json::array()}}}}}}}}}));
  for (const Export& brought : {in_bytes, in_json}) {
    ASSERT_EQ(brought.points.size(), 1U) << brought.reason;
    EXPECT_FALSE(brought.points[0].cumulative);
    const auto& value = std::get<Exponential>(brought.points[0].value);
    EXPECT_EQ(value.scale, -2);
    EXPECT_EQ(value.offset, -3);
    EXPECT_THAT(value.counts, ElementsAre(2, 3));
    EXPECT_EQ(value.zero_count, 1);
    EXPECT_EQ(value.unit_ms, 1);
    EXPECT_EQ(*value.sum, 9);
  }
}

TEST(Wire, FieldsMayComeInAnyOrderAndUnknownOnesAreIgnored) {
  const std::string of_point = point({1, 2, 3, 4}, 1.5, second, 2 * second).SerializeAsString();
  const std::string data = number_field(2, cumulative) + field(99, "new") + field(1, of_point + number_field(77, 5));
  const std::string of_metric = field(histogram, data) + field(3, "s") + field(1, duration);
  proto::Resource resource;
  put(resource, search);
  const std::string of_scope = field(2, of_metric) + field(3, "url") + field(1, "");
  const std::string body = field(1, field(2, of_scope) + field(1, resource.SerializeAsString()));
  EXPECT_EQ(read(body, {duration, {{"service.name", "search"}}, 1000}).points.size(), 1U);
}

TEST(Wire, PointsAreSelectedByNameAndByAttributesOfTheResourceOrThePoint) {
  const auto of = [](const std::string& route) {
    return point({1, 0, 0, 0}, 0, second, 2 * second, {{"http.route", route}});
  };
  const std::string body =
      request({metric(duration, "s", histogram, points<proto::HistogramDataPoint>({of("/a"), of("/b")}, cumulative)),
               metric("other", "s", histogram, points<proto::HistogramDataPoint>({of("/a")}, cumulative))},
              search);
  EXPECT_EQ(read(body).points.size(), 2U);
  EXPECT_THAT(read(body).others, ElementsAre("other"));
  EXPECT_EQ(read(body, {duration, {{"service.name", "search"}, {"http.route", "/a"}}, 1000}).points.size(), 1U);
  EXPECT_THAT(read(body, {duration, {{"service.name", "shop"}}, 1000}).points, IsEmpty());
  EXPECT_THAT(read(body, {duration, {{"http.method", ""}}, 1000}).points, IsEmpty());
  EXPECT_THAT(read(body, {"nothing", {}, 1000}).points, IsEmpty());
}

TEST(Wire, NumbersAndTruthAsAttributesAreSelectedByTheirText) {
  proto::HistogramDataPoint message = point({1, 0, 0, 0}, 0, second, 2 * second);
  const auto put_value = [&message](const char* key) {
    auto* made = message.add_attributes();
    made->set_key(key);
    return made->mutable_value();
  };
  put_value("status")->set_int_value(200);
  put_value("share")->set_double_value(0.5);
  put_value("cached")->set_bool_value(true);
  const std::string body = request_of({message});
  for (const auto& wanted : {std::pair("status", "200"), std::pair("share", "0.5"), std::pair("cached", "true")}) {
    EXPECT_EQ(read(body, {duration, {wanted}, 1000}).points.size(), 1U) << wanted.first;
  }
}

TEST(Wire, TheOrderOfAttributesMakesNoOtherSeriesButTheirTypeDoes) {
  const auto identity = [](const std::vector<Pair>& attributes) {
    return read(request_of({point({1, 0, 0, 0}, 0, second, 2 * second, attributes)})).points.at(0).identity;
  };
  EXPECT_EQ(identity({{"a", "1"}, {"b", "2"}}), identity({{"b", "2"}, {"a", "1"}}));
  EXPECT_NE(identity({{"a", "1"}, {"b", "2"}}), identity({{"a", "1b2"}}));
  proto::HistogramDataPoint number = point({1, 0, 0, 0}, 0, second, 2 * second);
  number.add_attributes()->set_key("a");
  number.mutable_attributes(0)->mutable_value()->set_int_value(1);
  EXPECT_NE(identity({{"a", "1"}}), read(request_of({number})).points.at(0).identity);
}

TEST(Wire, TheUnitIsTheMetricsOwnOrTheOneThatWasGiven) {
  for (const auto& [unit, in_ms] : std::map<std::string, double>{
           {"s", 10}, {"ms", 0.01}, {"us", 1e-5}, {"ns", 1e-8}, {"", 70}, {"milliseconds", 0.01}}) {
    const auto data = points<proto::HistogramDataPoint>({point({1, 0, 0, 0}, 0, second, 2 * second)}, cumulative);
    const Export brought = read(request({metric(duration, unit, histogram, data)}), {duration, {}, 7000});
    EXPECT_DOUBLE_EQ(std::get<Histogram>(brought.points.at(0).value).buckets[0].upper, in_ms) << unit;
  }
}

TEST(Wire, WhatMakesNoSenseIsRejectedPointByPointWithAReason) {
  const auto good = point({1, 2, 3, 4}, 1.5, second, 2 * second);
  const std::vector<std::pair<std::function<void(proto::HistogramDataPoint&)>, std::string>> cases{
      {[](auto& one) { one.set_time_unix_nano(0); }, "expected a start and a later time"},
      {[](auto& one) { one.set_start_time_unix_nano(3 * second); }, "expected a start and a later time"},
      {[](auto& one) { one.set_count(11); }, "do not add up to its count 11"},
      {[](auto& one) { one.set_bucket_counts(0, UINT64_MAX); }, "do not add up"},
      {[](auto& one) { one.set_count(UINT64_MAX); }, "expected at most 1024 and 1000000000000"},
      {[](auto& one) { one.add_bucket_counts(0); }, "has 3 bounds and 5 buckets"},
      {[](auto& one) { one.clear_bucket_counts(); }, "do not add up"},
      {[](auto& one) { one.set_explicit_bounds(1, 0.001); }, "bounds that do not ascend from 0 to 1e18"},
      {[](auto& one) { one.set_explicit_bounds(0, -1); }, "bounds that do not ascend from 0 to 1e18"},
      {[](auto& one) { one.set_explicit_bounds(2, std::nan("")); }, "bounds that do not ascend from 0 to 1e18"},
      {[](auto& one) { one.mutable_bucket_counts()->Resize(2000, 0); }, "expected at most 1024"},
  };
  for (const auto& [spoil, reason] : cases) {
    proto::HistogramDataPoint bad = good;
    spoil(bad);
    const Export brought = read(request_of({bad, good}));
    EXPECT_EQ(brought.points.size(), 1U);
    EXPECT_EQ(brought.rejected, 1U);
    EXPECT_THAT(brought.reason, HasSubstr(reason));
  }
  EXPECT_THAT(read(request_of({good}, 0)).reason, HasSubstr("no aggregation temporality"));
  EXPECT_THAT(read(request_of({good}, 9)).reason, HasSubstr("no aggregation temporality"));
  const Export gauge = read(request({metric(duration, "s", 5, points<proto::HistogramDataPoint>({good, good}, 0))}));
  EXPECT_EQ(gauge.rejected, 2U);
  EXPECT_THAT(gauge.reason, HasSubstr("is no histogram"));
}

TEST(Wire, ExponentialHistogramsThatMakeNoSense) {
  proto::ExponentialHistogramDataPoint good;
  good.set_start_time_unix_nano(1);
  good.set_time_unix_nano(second);
  good.set_count(1);
  good.mutable_positive()->add_bucket_counts(1);
  const auto reason_of = [](const proto::ExponentialHistogramDataPoint& one) {
    return read(request({metric(duration, "s", exponential_histogram,
                                points<proto::ExponentialHistogramDataPoint>({one}, cumulative))}))
        .reason;
  };
  EXPECT_EQ(reason_of(good), "");
  proto::ExponentialHistogramDataPoint bad = good;
  bad.set_scale(21);
  EXPECT_THAT(reason_of(bad), HasSubstr("expected -10 to 20"));
  bad = good;
  bad.set_zero_threshold(std::nan(""));
  EXPECT_THAT(reason_of(bad), HasSubstr("zero_threshold"));
  bad = good;
  bad.mutable_positive()->set_offset(2'000'000'000);
  EXPECT_THAT(reason_of(bad), HasSubstr("expected buckets of numbers that there are"));
  bad = good;
  bad.set_count(2);
  bad.mutable_negative()->add_bucket_counts(UINT64_MAX);
  bad.mutable_negative()->add_bucket_counts(2);
  EXPECT_THAT(reason_of(bad), HasSubstr("do not add up to its count 2"));
}

// As of a clock that was set back.
TEST(Wire, ValuesBelowZeroOfAnExponentialHistogramTookNoTime) {
  proto::ExponentialHistogramDataPoint message;
  message.set_start_time_unix_nano(1);
  message.set_time_unix_nano(second);
  message.set_count(10);
  message.set_zero_count(1);
  message.mutable_positive()->add_bucket_counts(6);
  for (const std::uint64_t count : {1U, 2U}) message.mutable_negative()->add_bucket_counts(count);
  const Export in_bytes =
      read(request({metric(duration, "s", exponential_histogram, points<decltype(message)>({message}, cumulative))}));
  const Export in_json = read_as_json(json_request({{"name", duration},
                                                    {"unit", "s"},
                                                    {"exponentialHistogram",
                                                     {{"aggregationTemporality", 2},
                                                      {"dataPoints",
                                                       {{{"startTimeUnixNano", 1},
                                                         {"timeUnixNano", "1000000000"},
                                                         {"count", 10},
                                                         {"zeroCount", 1},
                                                         {"positive", {{"bucketCounts", {6}}}},
                                                         {"negative", {{"bucketCounts", {1, "2"}}}}}}}}}}));
  for (const Export& brought : {in_bytes, in_json}) {
    ASSERT_EQ(brought.points.size(), 1U) << brought.reason;
    EXPECT_EQ(std::get<Exponential>(brought.points[0].value).zero_count, 4);
    EXPECT_EQ(std::get<Exponential>(brought.points[0].value).count, 10);
  }
}

TEST(Wire, ASumThatIsNoneIsMissingAndNoReasonToRejectThePoint) {
  for (const double sum : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const Export brought = read(request_of({point({1, 2, 3, 4}, sum, second, 2 * second)}));
    EXPECT_FALSE(std::get<Histogram>(brought.points.at(0).value).sum);
  }
}

TEST(Wire, APointWithoutAValueNeedsNoBuckets) {
  proto::HistogramDataPoint message;
  message.set_time_unix_nano(second);
  message.set_flags(1);
  const Export brought = read(request_of({message}));
  ASSERT_EQ(brought.points.size(), 1U);
  EXPECT_FALSE(brought.points[0].has_value);
}

TEST(Wire, ARequestThatWasCutOffIsRefusedAsAWhole) {
  const std::string body = request_of({point({1, 2, 3, 4}, 1.5, second, 2 * second, search)}, cumulative, search);
  for (std::size_t length = 1; length < body.size(); ++length) {
    EXPECT_FALSE(read_protobuf(std::string_view(body).substr(0, length), {})) << length;
  }
  EXPECT_TRUE(read(std::string()).points.empty());
}

TEST(Wire, BrokenBytesAreRefusedAndNeverACrash) {
  EXPECT_THAT(read_protobuf("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", {}).error().message, HasSubstr("broken"));
  EXPECT_THAT(read_protobuf(field(1, field(2, field(2, "\x07"))), {}).error().message, HasSubstr("broken"));
  const std::string invalid_text = "\xff\xfe";
  EXPECT_FALSE(read_protobuf(field(1, field(1, field(1, field(1, invalid_text)))), {}));
  const std::string body = request_of({point({1, 2, 3, 4}, 1.5, second, 2 * second, search)}, cumulative, search);
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::string spoiled = body;
    for (int change = 0; change < 3; ++change) spoiled[random() % spoiled.size()] = static_cast<char>(random());
    (void)read_protobuf(spoiled, {});
  }
}

TEST(Wire, MessagesThatWouldBecomeAThousandTimesAsLargeAreNotHeld) {
  // Two bytes each.
  std::string empty_points;
  for (int i = 0; i < 500'000; ++i) empty_points += field(1, "");
  const Export brought = read(request({metric(duration, "s", histogram, empty_points + number_field(2, cumulative))}));
  EXPECT_TRUE(brought.points.empty());
  EXPECT_EQ(brought.rejected, 500'000U);
  std::string empty_attributes;
  for (int i = 0; i < 500'000; ++i) empty_attributes += field(1, "");
  EXPECT_THAT(read_protobuf(field(1, field(1, empty_attributes)), {}).error().message,
              HasSubstr("expected at most 262144"));
}

TEST(Wire, AnExportHasSoManyPointsAndNoMore) {
  std::vector<proto::HistogramDataPoint> messages(Gather::most_points + 5, point({1, 0, 0, 0}, 1, second, 2 * second));
  const Export brought = read(request_of(messages));
  EXPECT_EQ(brought.points.size(), Gather::most_points);
  EXPECT_EQ(brought.rejected, 5U);
  EXPECT_THAT(brought.reason, HasSubstr("select by --attribute"));
}

TEST(WireJson, WhatIsOfAnotherTypeIsOneSentence) {
  const std::vector<std::pair<nlohmann::json, std::string>> cases{
      {{{"count", "ten"}}, "count is \"ten\", expected a whole number from 0 on, or its text"},
      {{{"count", -1}}, "count is -1, expected a whole number from 0 on"},
      {{{"sum", nlohmann::json::array()}}, "sum is a list, expected a number"},
      {{{"bucketCounts", "1"}}, "bucketCounts is \"1\", expected a list"},
      {{{"bucketCounts", {1.5}}}, "bucketCounts is 1.5, expected a whole number"},
      {{{"explicitBounds", {"x"}}}, "explicitBounds is \"x\", expected a number"},
      {{{"attributes", {{{"key", 1}}}}}, "key is 1, expected text"},
      {{{"attributes", {{{"key", "a"}, {"value", 3}}}}}, "value is 3, expected an object"},
  };
  for (const auto& [change, words] : cases) {
    nlohmann::json spoiled = json_point();
    spoiled.update(change);
    const auto brought = read_json(json_of(spoiled).dump(), {});
    ASSERT_FALSE(brought) << words;
    EXPECT_THAT(brought.error().message, HasSubstr("no ExportMetricsServiceRequest: " + words));
  }
  for (const char* body : {"", "[]", "3", "{", "null", "\xff"}) EXPECT_FALSE(read_json(body, {})) << body;
  EXPECT_FALSE(read_json(R"({"resourceMetrics": {}})", {}));
  EXPECT_FALSE(read_json(R"({"resourceMetrics": [{"resource": 1}]})", {}));
}

TEST(WireJson, NullIsTheDefaultAndSpecialNumbersAreTexts) {
  nlohmann::json sparse = json_point();
  sparse["sum"] = "NaN";
  sparse["attributes"] = nullptr;
  sparse["flags"] = nullptr;
  const Export brought = read_as_json(json_of(sparse));
  ASSERT_EQ(brought.points.size(), 1U);
  EXPECT_FALSE(std::get<Histogram>(brought.points[0].value).sum);
  sparse["explicitBounds"] = {"0.01", "0.1", "Infinity"};
  EXPECT_EQ(read_as_json(json_of(sparse)).rejected, 1U);
  EXPECT_TRUE(read_as_json(nlohmann::json::object()).points.empty());
  EXPECT_TRUE(read_as_json({{"resourceMetrics", {1, "x", nullptr}}}).points.empty());
}

TEST(WireJson, ManyLevelsAreNoDeepRecursion) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  const std::string deep = nested(200'000);
  EXPECT_FALSE(read_json(R"({"resourceMetrics":)" + std::string(200'000, '['), {}));
  EXPECT_FALSE(read_json(R"({"resourceMetrics":{"a":)" + deep + "}}", {}));
  EXPECT_FALSE(read_json(R"({"unheardOf":)" + deep + "}", {}));
  EXPECT_TRUE(read_json(R"({"unheardOf":)" + nested(90) + "}", {}));
  nlohmann::json attribute = json_point();
  attribute["attributes"] = {{{"key", "a"}, {"value", {{"arrayValue", "HERE"}}}}};
  std::string body = json_of(attribute).dump();
  EXPECT_TRUE(read_json(body, {}));
  body.replace(body.find("\"HERE\""), 6, deep);
  const auto read = read_json(body, {});
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, testing::HasSubstr("nested more than 100 times"));
}

TEST(WireJson, NullBesideARealValueIsNotThere) {
  nlohmann::json point = json_point();
  point["attributes"] = {{{"key", "a"}, {"value", {{"stringValue", nullptr}, {"intValue", 3}}}}};
  const Selection wanted{duration, {{"a", "3"}}, 1000.0};
  const auto read = read_json(json_of(point).dump(), wanted);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->points.size(), 1U);
}

TEST(Wire, AnotherUnitThanOfTimeIsRejected) {
  const auto data = points<proto::HistogramDataPoint>({point({1, 0, 0, 0}, 0, second, 2 * second)}, cumulative);
  const Export brought = read(request({metric(duration, "By", histogram, data)}), {duration, {}, 1000});
  EXPECT_TRUE(brought.points.empty());
  EXPECT_THAT(brought.reason, testing::HasSubstr("the unit of the histogram is 'By', expected s, ms, us or ns"));
}

TEST(Wire, ManyAttributesAndManyBadPointsAreRejectedWithoutBeingLookedAt) {
  std::vector<Pair> many;
  for (std::size_t i = 0; i <= Gather::most_attributes; ++i) many.emplace_back("k" + std::to_string(i), "v");
  const Export loaded = read(request_of({point({1, 0, 0, 0}, 0, second, 2 * second, many)}));
  EXPECT_TRUE(loaded.points.empty());
  EXPECT_THAT(loaded.reason, testing::HasSubstr("has 129 attributes, expected at most 128"));
  proto::HistogramDataPoint bad = point({1, 0, 0, 0}, 0, second, 2 * second);
  bad.set_count(7);
  std::vector<proto::HistogramDataPoint> points(Gather::most_points, bad);
  points.push_back(point({1, 0, 0, 0}, 0, second, 2 * second));
  const Export brought = read(request_of(points));
  EXPECT_TRUE(brought.points.empty()) << "points that cannot be used count, too";
  EXPECT_EQ(brought.rejected, Gather::most_points + 1);
}

TEST(Wire, AScopeWithTooManyAttributesSpoilsNoOtherScope) {
  const auto scope_of = [](std::size_t attributes) {
    proto::InstrumentationScope scope;
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < attributes; ++i) pairs.emplace_back("k" + std::to_string(i), "v");
    put(scope, pairs);
    const auto data = points<proto::HistogramDataPoint>({point({1, 0, 0, 0}, 0, second, 2 * second)}, cumulative);
    return field(2, field(1, scope.SerializeAsString()) + field(2, metric(duration, "s", histogram, data)));
  };
  const Export brought = read(field(1, scope_of(Gather::most_attributes + 1) + scope_of(1)));
  EXPECT_EQ(brought.points.size(), 1U);
  EXPECT_EQ(brought.rejected, 1U);
  EXPECT_THAT(brought.reason, HasSubstr("a scope has 129 attributes, expected at most 128"));
}

TEST(Wire, ACumulativePointWithoutAStartIsRejected) {
  const Export brought = read(request_of({point({1, 0, 0, 0}, 0, 0, 2 * second)}));
  EXPECT_TRUE(brought.points.empty());
  EXPECT_THAT(brought.reason, testing::HasSubstr("has no start time"));
}

}  // namespace
}  // namespace osml::latency::otlp
