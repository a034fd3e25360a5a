// Native histograms of Prometheus to percentiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/files.h"
#include "prometheus_bodies.h"
#include "telemetry/prometheus_protobuf.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing_support::delta;
using testing_support::family;
using testing_support::field;
using testing_support::metric;
using testing_support::native_of_values;
using testing_support::NativeBody;
using testing_support::real;
using testing_support::span;
using testing_support::whole;
using testing_support::zigzag;

const std::map<std::string, std::string> none;

Result<HistogramReading> read(const std::string& message) {
  return parse_families(family("rt", {metric(message)}), "rt", {});
}

// Between two scrapes of one series.
Result<Histogram> gained(const NativeBody& newer, const NativeBody& older) {
  const auto now = read(newer.message());
  if (!now) return now.error();
  const auto before = read(older.message());
  if (!before) return before.error();
  return gained_between(*now, *before);
}

Result<Histogram> total(const std::string& message) {
  const auto reading = read(message);
  if (!reading) return reading.error();
  return gained_between(*reading, {});
}

// `shift` is the logarithm of the median.
std::vector<double> lognormal(std::size_t n, double shift, unsigned seed) {
  std::mt19937 random(seed);
  std::lognormal_distribution<double> latency(shift, 1.0);
  std::vector<double> values(n);
  for (double& value : values) value = latency(random);
  return values;
}

double exact(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size()))) - 1];
}

void expect_near(const Histogram& found, const std::vector<double>& values, int schema) {
  const double width = std::exp2(std::exp2(-schema));
  for (const double q : {0.5, 0.95, 0.99}) {
    EXPECT_LE(*quantile(found, q), exact(values, q) * width) << q << " at schema " << schema;
    EXPECT_GE(*quantile(found, q), exact(values, q) / width) << q << " at schema " << schema;
  }
  EXPECT_EQ(found.buckets.back().count, static_cast<double>(values.size()));
  EXPECT_NEAR(*found.sum, std::accumulate(values.begin(), values.end(), 0.0), 1e-6);
}

TEST(NativeHistogram, APercentileIsAsNearAsABucketIsWide) {
  const auto slow_before = lognormal(5000, 2.0, 1);  // they are no part of the interval
  const auto values = lognormal(10'000, -5.0, 2);
  for (const int schema : {-4, -1, 0, 2, 3, 5}) {
    const NativeBody before = native_of_values(schema, slow_before);
    NativeBody after = before;
    for (const double value : values) after.observe(value);
    const auto found = gained(after, before);
    ASSERT_TRUE(found) << found.error().message;
    expect_near(*found, values, schema);
  }
}

// Twelve powers of two have 3072 buckets at schema 8, and 768 at schema 6.
TEST(NativeHistogram, TheFinestBucketsAreJoinedWhereTheyAreTooMany) {
  auto values = lognormal(10'000, -5.0, 3);
  std::erase_if(values, [](double value) { return value < std::exp2(-13) || value > std::exp2(-1); });
  const auto reading = read(native_of_values(8, values).message());
  ASSERT_TRUE(reading) << reading.error().message;
  const Exponential& series = reading->native.begin()->second;
  EXPECT_LE(series.counts.size(), Exponential::most_buckets);
  EXPECT_GE(series.scale, 6);
  expect_near(*gained_between(*reading, {}), values, 6);
}

TEST(NativeHistogram, InsideOfABucketThePercentileIsGeometric) {
  NativeBody body = native_of_values(0, {});
  body.buckets = {{1, 60}, {3, 40}};  // (1, 2] and (4, 8]
  body.count = 100;
  const auto found = total(body.message());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_DOUBLE_EQ(*quantile(*found, 0.30), std::sqrt(2));
  EXPECT_DOUBLE_EQ(*quantile(*found, 0.60), 2);
  EXPECT_DOUBLE_EQ(*quantile(*found, 0.70), 4 * std::pow(2, 0.25)) << "nothing lies between the buckets";
  EXPECT_DOUBLE_EQ(*latency_of(*found, 1000)->p95_ms, 8000 * std::pow(2, -5.0 / 40)) << "seconds";
  EXPECT_DOUBLE_EQ(*latency_of(*found, 1)->p95_ms, 8 * std::pow(2, -5.0 / 40)) << "milliseconds";
}

TEST(NativeHistogram, TheZeroBucketBeginsAtZeroAndIsLinear) {
  NativeBody body = native_of_values(0, {});
  body.zero_threshold = 0.5;
  body.zero_count = 50;
  body.buckets = {{1, 50}};
  body.count = 100;
  const auto found = total(body.message());
  EXPECT_DOUBLE_EQ(*quantile(*found, 0.25), 0.25);
  EXPECT_DOUBLE_EQ(*quantile(*found, 0.75), std::sqrt(2));
  body.buckets.clear();
  EXPECT_DOUBLE_EQ(*quantile(*total(body.message()), 0.5), 0.25) << "all of them took no time";
}

TEST(NativeHistogram, AClientThatHalvesItsResolutionLosesNoRequest) {
  const auto values = lognormal(1000, -5.0, 5);
  const NativeBody before = native_of_values(5, lognormal(500, -4.0, 4));
  NativeBody after = before;
  after.halve_resolution();
  after.halve_resolution();
  for (const double value : values) after.observe(value);
  const auto found = gained(after, before);
  const auto alone = total(native_of_values(3, values).message());
  ASSERT_TRUE(found) << found.error().message;
  for (const double q : {0.01, 0.5, 0.99}) EXPECT_DOUBLE_EQ(*quantile(*found, q), *quantile(*alone, q));
  expect_near(*found, values, 3);
  // And back, as after a restart that nobody saw: the coarser of both again.
  NativeBody finer = native_of_values(5, {});
  finer.buckets = {{8, 3}, {9, 5}};
  finer.count = 8;
  NativeBody coarser = native_of_values(4, {});
  coarser.buckets = {{4, 1}, {5, 1}};
  coarser.count = 2;
  EXPECT_EQ(gained(finer, coarser)->buckets.back().count, 6);
}

TEST(NativeHistogram, AClientThatWidensItsZeroBucketLosesNoRequest) {
  const NativeBody before = native_of_values(3, {0.0011, 0.0011, 0.003, 0.003, 0.003, 0.5});
  NativeBody after = before;
  after.merge_lowest_into_zero();
  after.merge_lowest_into_zero();
  for (const double value : {0.0001, 0.0001, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}) after.observe(value);
  const auto found = gained(after, before);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->buckets.front().count, 2) << "of zero";
  EXPECT_EQ(found->buckets.back().count, 8);
  EXPECT_NEAR(*quantile(*found, 0.5), 0.5, 0.05);
  // And less resolution, by which the threshold lies inside of a bucket.
  after.halve_resolution();
  EXPECT_EQ(gained(after, before)->buckets.back().count, 8);
}

// As client_golang serves them (golden/prometheus/record.go). Between them it widens the zero bucket and halves the
// resolution, since it may have 40 buckets.
TEST(NativeHistogram, BodiesOfARealClientAreRead) {
  const auto recorded = [](const char* name, const std::string& metric, const std::string& path) {
    const auto body = read_text(fs::path(__FILE__).parent_path() / "golden/prometheus" / name);
    const std::map<std::string, std::string> labels =
        path.empty() ? none : std::map<std::string, std::string>{{"path", path}};
    return body ? parse_families(*body, metric, labels) : Result<HistogramReading>(body.error());
  };
  const auto before = recorded("before.pb", "rt_seconds", "/a");
  const auto after = recorded("after.pb", "rt_seconds", "/a");
  ASSERT_TRUE(before && after) << (before ? after : before).error().message;
  EXPECT_EQ(before->native.begin()->second.scale, 3);
  EXPECT_EQ(after->native.begin()->second.scale, 2);
  EXPECT_LT(before->native.begin()->second.zero_threshold, after->native.begin()->second.zero_threshold);
  std::vector<double> values(10'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.001 * std::pow(1.0005, static_cast<double>(i));
  expect_near(*gained_between(*after, *before), values, 2);

  const auto of_b =
      gained_between(*recorded("after.pb", "rt_seconds", "/b"), *recorded("before.pb", "rt_seconds", "/b"));
  EXPECT_EQ(of_b->buckets.back().count, 1);
  EXPECT_NEAR(*quantile(*of_b, 0.5), 1, 0.1);

  const auto classic =
      gained_between(*recorded("after.pb", "classic_seconds", ""), *recorded("before.pb", "classic_seconds", ""));
  EXPECT_EQ(classic->buckets.back().count, 10'001);
  EXPECT_GE(*quantile(*classic, 0.5), 0.01);
  EXPECT_LE(*quantile(*classic, 0.5), 0.025);
  EXPECT_THAT(recorded("after.pb", "requests_total", "").error().message, HasSubstr("has the type 'counter'"));
}

TEST(NativeHistogram, ARestartCountsFromZero) {
  const auto values = lognormal(100, -5.0, 6);
  const auto found = gained(native_of_values(3, values), native_of_values(3, lognormal(5000, -3.0, 7)));
  ASSERT_TRUE(found) << found.error().message;
  expect_near(*found, values, 3);
}

TEST(NativeHistogram, WithoutARequestNothingIsGained) {
  NativeBody nothing = native_of_values(3, {});
  EXPECT_FALSE(latency_of(*total(nothing.message()), 1000));
  nothing.zero_threshold = 0;
  EXPECT_FALSE(latency_of(*total(nothing.message() + span(0, 0)), 1000)) << "an empty span says that it is native";
  const NativeBody some = native_of_values(3, {0.1, 0.2});
  EXPECT_FALSE(latency_of(*gained(some, some), 1000));
}

TEST(NativeHistogram, CountsOfFloatHistogramsAreAbsolute) {
  const auto found = total(real(4, 10) + real(2, 15) + whole(5, zigzag(0)) + real(6, 1e-9) + real(8, 2) + span(1, 2) +
                           real(14, 3) + real(14, 5));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->buckets.back().count, 10);
  EXPECT_DOUBLE_EQ(*latency_of(*found, 1)->mean_ms, 1.5);
  EXPECT_DOUBLE_EQ(*quantile(*found, 0.75), 2 * std::sqrt(2));
}

TEST(NativeHistogram, NumbersMayBePacked) {
  std::string packed;
  for (const std::int64_t value : {5, -2}) packed += testing_support::varint(zigzag(value));
  const auto found = total(whole(1, 8) + whole(5, zigzag(0)) + span(1, 2) + field(13, packed));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->buckets.back().count, 8);
  EXPECT_FALSE(latency_of(*found, 1)->mean_ms) << "it says no sum";
}

TEST(NativeHistogram, ASumThatIsNoneHasNoMeanButPercentiles) {
  NativeBody body = native_of_values(3, {0.1, 0.1});
  body.sum = std::numeric_limits<double>::quiet_NaN();
  ++body.count;  // what was NaN is in no bucket
  const auto latency = latency_of(*total(body.message()), 1000);
  ASSERT_TRUE(latency);
  EXPECT_FALSE(latency->mean_ms);
  EXPECT_NEAR(*latency->p50_ms, 100, 10);
  EXPECT_EQ(latency->samples, 2U);
}

TEST(NativeHistogram, AnEndlessLatencyIsLongAndHidesNoOther) {
  for (const int schema : {-4, 0, 3, 8}) {
    NativeBody body = native_of_values(schema, std::vector<double>(98, 0.1));
    body.buckets[(schema < 0 ? 1024 >> -schema : 1024 << schema) + 1] = 2;  // +Inf, as clients count it
    const auto found = total(body.message());
    ASSERT_TRUE(found) << found.error().message;
    const double width = std::exp2(std::exp2(-std::min(schema, 3)));
    EXPECT_LE(*quantile(*found, 0.5), 0.1 * width) << schema;
    EXPECT_GE(*quantile(*found, 0.5), 0.1 / width) << schema;
    EXPECT_GE(*quantile(*found, 0.99), std::exp2(48)) << schema;
    EXPECT_LE(*quantile(*found, 0.99), std::exp2(64)) << schema;
  }
  for (const auto offset : {std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()}) {
    const auto found = total(whole(1, 1) + span(offset, 1) + delta(1));
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->buckets.back().count, 1);
  }
}

// As of a clock that was set back.
TEST(NativeHistogram, ValuesBelowZeroTookNoTime) {
  NativeBody body = native_of_values(0, {});
  body.buckets = {{1, 10}};
  body.count = 15;
  const std::string negative = field(9, whole(1, zigzag(0)) + whole(2, 2));
  for (const std::string& counts :
       {whole(10, zigzag(2)) + whole(10, zigzag(1)), real(11, 2) + real(11, 3)}) {  // 2 and 3
    const auto found = total(body.message() + negative + counts);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->buckets.back().count, 15);
    EXPECT_LE(*quantile(*found, 0.3), 1e-9);
    EXPECT_GT(*quantile(*found, 0.4), 1);
  }
}

TEST(NativeHistogram, WhatIsNoneIsRefusedWithWhatToCheck) {
  const std::string of_one = whole(1, 1) + span(0, 1);
  const std::string negative = field(9, whole(1, zigzag(0)) + whole(2, 1));
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::pair<std::string, const char*>> cases{
      {whole(5, zigzag(-53)) + of_one + delta(1),
       "has the schema -53, expected -4 to 8; give the histogram exponential"},
      {whole(5, zigzag(9)) + of_one + delta(1), "the schema 9"},
      {negative + whole(10, zigzag(-5)), "do not fit together"},
      {negative + real(11, -5), "do not fit together"},
      {negative + real(11, 1e15) + of_one + delta(1), "0 to 1e15 observations"},
      {of_one + delta(-1), "do not fit together"},
      {of_one + delta(most), "do not fit together"},
      {whole(1, 2) + span(0, 2) + delta(most) + delta(most), "do not fit together"},
      {whole(1, 2) + span(0, 2) + delta(1) + delta(std::numeric_limits<std::int64_t>::min()), "do not fit together"},
      {of_one + delta(1) + delta(1), "do not fit together"},
      {of_one, "do not fit together"},
      {span(0, 1U << 31U) + delta(1), "do not fit together"},
      {span(0, 1) + span(-5, 1) + delta(1) + delta(0), "do not fit together"},
      {span(0, 1) + real(14, std::numeric_limits<double>::quiet_NaN()), "do not fit together"},
      {span(0, 1) + real(14, -1), "do not fit together"},
      {span(0, 2) + real(14, 1e15) + real(14, 1e15), "0 to 1e15 observations"},
      {whole(1, std::uint64_t{1} << 63U) + span(0, 0), "expected counts from 0 to 1e15"},
      {whole(7, std::uint64_t{1} << 63U), "expected counts from 0 to 1e15"},
      {real(6, 1e300), "a threshold from 0 to 1e18"},
      {real(6, std::numeric_limits<double>::quiet_NaN()) + span(0, 0), "the zero_threshold nan, expected"}};
  for (const auto& [message, words] : cases) {
    const auto found = total(message);
    ASSERT_FALSE(found) << words;
    EXPECT_THAT(found.error().message, HasSubstr("the native histogram 'rt' has "));
    EXPECT_THAT(found.error().message, HasSubstr(words));
  }
}

}  // namespace
}  // namespace osml
