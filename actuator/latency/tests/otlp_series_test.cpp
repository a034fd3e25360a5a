// Exports of one or several processes into what came between them.
#include <gmock/gmock.h>

#include <limits>

#include "otlp/series.h"

namespace osml::latency::otlp {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t t0 = 1'700'000'000 * second;
const double infinity = std::numeric_limits<double>::infinity();

// So many requests of at most 10 ms, and of 10 to 100 ms.
Histogram plain(double fast, double slow) {
  return {{{10, fast}, {100, fast + slow}, {infinity, fast + slow}}, fast * 5 + slow * 50, fast + slow};
}

Exponential exponential(double fast, double slow) {
  Exponential made;
  made.offset = 2;  // (4, 8], (8, 16]
  made.counts = {fast, slow};
  made.count = fast + slow;
  made.sum = fast * 6 + slow * 12;
  return made;
}

struct Times {
  double start_s;
  double time_s;
};

std::uint64_t at(double seconds) { return t0 + static_cast<std::uint64_t>(seconds * 1e9); }

Point cumulative(Times times, std::variant<Histogram, Exponential> value, std::uint64_t identity = 1) {
  Point point;
  point.identity = identity;
  point.start_ns = at(times.start_s);
  point.time_ns = at(times.time_s);
  point.value = std::move(value);
  return point;
}

Point delta(Times times, std::variant<Histogram, Exponential> value, std::uint64_t identity = 1) {
  Point point = cumulative(times, std::move(value), identity);
  point.cumulative = false;
  return point;
}

class SeriesTest : public testing::Test {
 protected:
  // The points arrive at the time of the newest of them.
  Taken add(const std::vector<Point>& points) {
    std::uint64_t now = now_;
    for (const Point& point : points) now = std::max(now, point.time_ns);
    now_ = now;
    Export brought;
    brought.points = points;
    return series_.add(brought, now);
  }
  std::optional<Latency> take() { return series_.take(now_, 0); }
  std::uint64_t samples() {
    const auto latency = take();
    return latency ? latency->samples.value_or(0) : 0;
  }

  Series series_{1.0};
  std::uint64_t now_ = 0;
};

TEST_F(SeriesTest, ACumulativeSeriesCountsWithWhatItGained) {
  add({cumulative({-1000, 0}, plain(1'000'000, 0))});
  EXPECT_FALSE(take());  // the first reading is the base
  EXPECT_EQ(add({cumulative({-1000, 1}, plain(1'000'050, 50))}).rejected, 0U);
  const auto latency = take();
  ASSERT_TRUE(latency);
  EXPECT_EQ(latency->samples, 100U);
  EXPECT_DOUBLE_EQ(*latency->p50_ms, 10);
  EXPECT_DOUBLE_EQ(*latency->p99_ms, 98.2);
  EXPECT_DOUBLE_EQ(*latency->mean_ms, 27.5);
  EXPECT_DOUBLE_EQ(*latency->requests_per_s, 100);
  EXPECT_FALSE(take());
}

TEST_F(SeriesTest, ADeltaPointCountsAsItIs) {
  add({delta({0, 1}, plain(50, 50))});
  const auto latency = take();
  EXPECT_EQ(latency->samples, 100U);
  EXPECT_DOUBLE_EQ(*latency->requests_per_s, 100);
}

TEST_F(SeriesTest, ExponentialHistogramsOfBothTemporalities) {
  add({cumulative({-1000, 0}, exponential(1000, 0)), delta({-1, 0}, exponential(10, 0), 2)});
  add({cumulative({-1000, 1}, exponential(1000, 30)), delta({0, 1}, exponential(0, 10), 2)});
  const auto latency = take();
  EXPECT_EQ(latency->samples, 50U);
  EXPECT_DOUBLE_EQ(*latency->p99_ms, 8 + 8 * (49.5 - 10) / 40);
}

TEST_F(SeriesTest, AnIntervalWithoutRequestsHasNoLatency) {
  add({cumulative({-1000, 0}, plain(10, 0))});
  EXPECT_EQ(add({cumulative({-1000, 1}, plain(10, 0))}).rejected, 0U);
  EXPECT_FALSE(take());
}

TEST_F(SeriesTest, ASeriesThatBeganJustNowCountsFromItsBegin) {
  add({cumulative({0, 1}, plain(10, 0))});
  const auto latency = take();
  EXPECT_EQ(latency->samples, 10U);
  EXPECT_DOUBLE_EQ(*latency->requests_per_s, 10);
}

// A collector that does not know when a series began says that it began with the first point.
TEST_F(SeriesTest, ASeriesOfAnUnknownBeginCountsFromItsFirstPoint) {
  EXPECT_EQ(add({cumulative({0, 0}, plain(1'000'000, 0))}).rejected, 0U);
  EXPECT_FALSE(take());
  add({cumulative({0, 1}, plain(1'000'010, 0))});
  EXPECT_EQ(samples(), 10U);
}

TEST_F(SeriesTest, ARestartIsANewSeriesAndLosesNothing) {
  add({cumulative({-1000, 0}, plain(500, 0))});
  add({cumulative({0.5, 1.5}, plain(20, 0))});
  EXPECT_EQ(samples(), 20U);
  add({cumulative({0.5, 2.5}, plain(25, 0))});
  EXPECT_EQ(samples(), 5U);
}

TEST_F(SeriesTest, LowerCountsWithoutANewStartAreABase) {
  add({cumulative({-1000, 0}, plain(500, 0))});
  EXPECT_EQ(add({cumulative({-1000, 1}, plain(20, 0))}).rejected, 0U);
  EXPECT_EQ(samples(), 0U);
  add({cumulative({-1000, 2}, plain(25, 0))});
  EXPECT_EQ(samples(), 5U);
}

TEST_F(SeriesTest, ASeriesThatHasJustBegunWasQuietBefore) {
  add({delta({0.998, 1}, plain(1, 0)), delta({0, 1}, plain(100, 0), 2)});
  EXPECT_DOUBLE_EQ(series_.take(now_, 1.0)->requests_per_s.value_or(0), 101.0) << "not 500 and 100";
  // Five pauses in an interval of ten seconds end five streams.
  for (int i = 0; i < 5; ++i) add({delta({2.0 + 2 * i, 3.0 + 2 * i}, plain(1, 0))});
  EXPECT_DOUBLE_EQ(series_.take(now_, 10.0)->requests_per_s.value_or(0), 0.5);
}

TEST_F(SeriesTest, ManyPausesAreNotManySeries) {
  for (int i = 0; i < 400; ++i) {
    const Taken taken = add({delta({2.0 * i, 2.0 * i + 1}, plain(1, 0))});
    ASSERT_EQ(taken.rejected, 0U) << i << ": " << taken.reason;
    EXPECT_EQ(samples(), 1U);
  }
  EXPECT_LT(series_.size(), 10U);
}

TEST_F(SeriesTest, OtherBoundsAreABaseAndAnotherKindTooWhichIsNoLatencyOfNobody) {
  add({cumulative({-1000, 0}, plain(500, 0))});
  Histogram other = plain(600, 0);
  other.buckets[0].upper = 20;
  add({cumulative({-1000, 1}, other)});
  EXPECT_EQ(samples(), 0U);
  add({cumulative({-1000, 2}, exponential(700, 0))});
  EXPECT_EQ(samples(), 0U);
  add({cumulative({-1000, 3}, exponential(705, 0))});
  EXPECT_EQ(samples(), 5U);
}

TEST_F(SeriesTest, NoRecordedValueIsAGapAndNothingIsCountedTwiceAfterIt) {
  add({cumulative({0, 1}, plain(10, 0))});
  EXPECT_EQ(samples(), 10U);
  Point nothing = cumulative({0, 1.5}, plain(0, 0));
  nothing.has_value = false;
  EXPECT_EQ(add({nothing}).rejected, 0U);
  add({cumulative({0, 2}, plain(15, 0))});
  EXPECT_EQ(samples(), 0U);
  add({cumulative({0, 3}, plain(18, 0))});
  EXPECT_EQ(samples(), 3U);
  nothing.cumulative = false;
  EXPECT_EQ(add({nothing}).rejected, 0U);
}

TEST_F(SeriesTest, RepeatedAndLateExportsCountOnce) {
  add({cumulative({-1000, 0}, plain(10, 0)), delta({-1, 0}, plain(1, 0), 2)});
  (void)take();
  const std::vector<Point> one{cumulative({-1000, 1}, plain(20, 0)), delta({0, 1}, plain(2, 0), 2)};
  const std::vector<Point> two{cumulative({-1000, 2}, plain(40, 0)), delta({1, 2}, plain(4, 0), 2)};
  add(one);
  add(one);
  EXPECT_EQ(samples(), 12U);
  add(two);
  const Taken again = add(one);
  EXPECT_EQ(again.rejected, 0U);
  add(two);
  EXPECT_EQ(samples(), 24U);
}

TEST_F(SeriesTest, DeltaPointsOutOfOrderAllCountAndCumulativeOnesLoseNothing) {
  add({cumulative({-1000, 0}, plain(10, 0)), delta({-1, 0}, plain(1, 0), 2)});
  (void)take();
  add({cumulative({-1000, 2}, plain(40, 0)), delta({1, 2}, plain(4, 0), 2)});
  add({cumulative({-1000, 1}, plain(20, 0)), delta({0, 1}, plain(2, 0), 2)});
  EXPECT_EQ(samples(), 30U + 6U);
}

TEST_F(SeriesTest, ProcessesWithTheSameAttributesAreToldApartByTheirTimes) {
  add({cumulative({-1000, 0.0}, plain(1000, 0)), delta({-1, 0.0}, plain(1, 0), 2)});
  add({cumulative({-900, 0.3}, plain(50, 0)), delta({-0.7, 0.3}, plain(1, 0), 2)});
  (void)take();
  add({cumulative({-1000, 1.0}, plain(1010, 0)), delta({0.0, 1.0}, plain(30, 0), 2)});
  add({cumulative({-900, 1.3}, plain(60, 0)), delta({0.3, 1.3}, plain(50, 0), 2)});
  const auto latency = take();
  EXPECT_EQ(latency->samples, 100U);
  EXPECT_DOUBLE_EQ(*latency->requests_per_s, 100);
}

TEST_F(SeriesTest, TheRateIsOverTheTimeThatThePointsDescribeNotOverOurInterval) {
  add({cumulative({-1000, 0}, plain(0, 0))});
  add({cumulative({-1000, 0.5}, plain(100, 0))});
  add({cumulative({-1000, 2.0}, plain(400, 0))});
  const auto latency = take();
  EXPECT_EQ(latency->samples, 400U);
  EXPECT_DOUBLE_EQ(*latency->requests_per_s, 200);
}

TEST_F(SeriesTest, PointsThatDescribeTooLongATimeAreNoLatencyAndTheAnswerSaysWhatToDo) {
  add({cumulative({-1000, 0}, plain(10, 0)), delta({-60, 0}, plain(1, 0), 2)});
  const Taken taken = add({cumulative({-1000, 60}, plain(70, 0)), delta({0, 60}, plain(60, 0), 2)});
  EXPECT_EQ(taken.rejected, 2U);
  EXPECT_EQ(taken.reason,
            "a point describes 60 s, expected at most 3 s; set OTEL_METRIC_EXPORT_INTERVAL=1000 for the service");
  EXPECT_EQ(samples(), 0U);
  add({cumulative({-1000, 61}, plain(71, 0)), delta({60, 61}, plain(1, 0), 2)});
  EXPECT_EQ(samples(), 2U);  // it is the base of the next one
}

TEST_F(SeriesTest, AFirstPointThatBeganLongAgoIsNoMistakeOfTheService) {
  EXPECT_EQ(add({delta({-500, 0}, plain(1, 0)), cumulative({-500, 0}, plain(1, 0), 2)}).rejected, 0U);
  EXPECT_EQ(samples(), 0U);
}

TEST_F(SeriesTest, OldPointsAreNoLatencyOfNow) {
  now_ = at(100);
  add({cumulative({-1000, 90}, plain(10, 0))});
  const Taken taken = add({cumulative({-1000, 91}, plain(20, 0)), delta({90, 91}, plain(5, 0), 2)});
  EXPECT_EQ(taken.rejected, 2U);
  EXPECT_THAT(taken.reason, HasSubstr("a point is 9 s old, expected at most 3 s; check the clocks"));
  EXPECT_EQ(samples(), 0U);
  add({cumulative({-1000, 100}, plain(30, 0))});
  EXPECT_EQ(samples(), 0U);
}

TEST_F(SeriesTest, PointsInTheFutureAreRejectedAndSpoilNothing) {
  add({cumulative({-1000, 0}, plain(10, 0))});
  Export brought;
  brought.points = {cumulative({-1000, 1000}, plain(500, 0)), delta({999, 1000}, plain(5, 0), 2)};
  const Taken taken = series_.add(brought, at(0.5));
  EXPECT_EQ(taken.rejected, 2U);
  EXPECT_THAT(taken.reason, HasSubstr("in the future"));
  add({cumulative({-1000, 1}, plain(15, 0))});
  EXPECT_EQ(samples(), 5U);
}

TEST_F(SeriesTest, AClockThatWasSetBackCostsOneBase) {
  now_ = at(1000);
  add({cumulative({-1000, 999.5}, plain(10, 0))});
  add({cumulative({-1000, 1000}, plain(20, 0))});
  (void)take();
  now_ = at(0);
  Export brought;
  brought.points = {cumulative({-1000, 0}, plain(30, 0))};
  EXPECT_EQ(series_.add(brought, now_).rejected, 0U);
  EXPECT_EQ(samples(), 0U);
  add({cumulative({-1000, 1}, plain(34, 0))});
  EXPECT_EQ(samples(), 4U);
}

TEST_F(SeriesTest, ADeltaPointWithoutAStartIsRejected) {
  Point point = delta({0, 1}, plain(1, 0));
  point.start_ns = 0;
  EXPECT_THAT(add({point}).reason, HasSubstr("no start time"));
  EXPECT_EQ(add({delta({1, 1}, plain(1, 0))}).rejected, 1U);
}

TEST_F(SeriesTest, MoreSeriesThanThereIsRoomForAreRefusedAndTheOthersGoOn) {
  std::vector<Point> points;
  for (std::uint64_t i = 0; i < Series::most_streams; ++i) points.push_back(cumulative({-1000, 0}, plain(1, 0), i));
  EXPECT_EQ(add(points).rejected, 0U);
  const Taken more = add({cumulative({-1000, 0}, plain(1, 0), 1'000'000), cumulative({-1000, 1}, plain(3, 0), 7)});
  EXPECT_EQ(more.rejected, 1U);
  EXPECT_THAT(more.reason, HasSubstr("too many series"));
  EXPECT_EQ(samples(), 2U);
  EXPECT_EQ(series_.size(), Series::most_streams);
  // Those that were not heard for a window give way.
  EXPECT_EQ(add({cumulative({-1000, 10}, plain(1, 0), 1'000'000)}).rejected, 0U);
  EXPECT_LT(series_.size(), 10U);
}

TEST_F(SeriesTest, BucketsOfAllSeriesTogetherHaveALimit) {
  Histogram wide{{}, 1.0, 1.0};
  for (int i = 1; i <= 1000; ++i) wide.buckets.push_back({static_cast<double>(i), 1});
  std::vector<Point> points;
  for (std::uint64_t i = 0; i < 1100; ++i) points.push_back(cumulative({-1000, 0}, wide, i));
  EXPECT_EQ(add(points).rejected, 100U);
  for (Point& point : points) point.time_ns = at(1);
  EXPECT_EQ(add(points).rejected, 100U);  // what is replaced takes no more room
  for (Point& point : points) point.start_ns = at(9.5);
  for (Point& point : points) point.time_ns = at(11);
  EXPECT_EQ(add(points).rejected, 100U) << "after a restart of all: who was not heard for a window gives way";
}

TEST_F(SeriesTest, TooManyDeltaSeriesWithTheSameAttributesAreRefused) {
  std::vector<Point> points;
  for (int i = 0; i < 200; ++i) points.push_back(delta({i * 1e-3, 1 + i * 1e-3}, plain(1, 0)));
  const Taken taken = add(points);
  EXPECT_EQ(samples(), static_cast<std::uint64_t>(Series::most_alike));
  EXPECT_EQ(taken.rejected, 200U - static_cast<std::uint64_t>(Series::most_alike));
}

TEST_F(SeriesTest, WhoSaysNothingForLongIsForgotten) {
  add({cumulative({-1000, 0}, plain(1, 0)), delta({-1, 0}, plain(1, 0))});
  (void)series_.take(at(299), 0);
  EXPECT_EQ(series_.size(), 2U);
  (void)series_.take(at(301), 0);
  EXPECT_EQ(series_.size(), 0U);
}

}  // namespace
}  // namespace osml::latency::otlp
