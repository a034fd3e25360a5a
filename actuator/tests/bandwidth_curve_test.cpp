#include <gtest/gtest.h>

#include <algorithm>

#include "bandwidth/calibrate.h"
#include "bandwidth/mba_curve.h"
#include "daemon/bandwidth_watch.h"

namespace osml {
namespace {

MbaCurve curve_of(std::vector<CurvePoint> points) {
  auto curve = MbaCurve::make("percent", std::move(points));
  EXPECT_TRUE(curve) << curve.error().message;
  return *curve;
}

TEST(MbaCurveTest, AsksForTheLeastSettingThatGivesEnough) {
  const MbaCurve curve = curve_of({{10, 4}, {20, 9}, {50, 18}, {100, 20}});
  EXPECT_EQ(curve.setting_for(0.1), 10U);
  EXPECT_EQ(curve.setting_for(4.0), 10U);
  EXPECT_EQ(curve.setting_for(4.1), 20U);
  EXPECT_EQ(curve.setting_for(17.9), 50U);
  EXPECT_EQ(curve.setting_for(99.0), 100U);
}

TEST(MbaCurveTest, SaysWhatASettingGives) {
  const MbaCurve curve = curve_of({{10, 4}, {20, 8}, {100, 20}});
  EXPECT_DOUBLE_EQ(curve.gbps_of(20), 8.0);
  EXPECT_DOUBLE_EQ(curve.gbps_of(15), 6.0);
  EXPECT_DOUBLE_EQ(curve.gbps_of(5), 4.0);
  EXPECT_DOUBLE_EQ(curve.gbps_of(200), 20.0);
  EXPECT_EQ(curve.range().min, 4000U);
  EXPECT_EQ(curve.range().max, 20000U);
  EXPECT_EQ(curve.range().unit, "mbps");
}

// A setting that is read back and asked for again must stay: otherwise allocations would creep.
TEST(MbaCurveTest, EverySettingIsFoundAgainByItsOwnBandwidth) {
  const MbaCurve curve = curve_of({{10, 4.0004}, {20, 8.0006}, {30, 8.7}, {100, 19.99951}});
  for (const CurvePoint& point : curve.points()) {
    const double mbps = static_cast<double>(static_cast<unsigned>(point.gbps * 1000 + 0.5));
    EXPECT_EQ(curve.setting_for(mbps / 1000), point.setting);
  }
}

TEST(MbaCurveTest, ABandwidthThatFallsIsNoise) {
  const MbaCurve curve = curve_of({{10, 4}, {20, 9}, {30, 8.5}, {100, 20}});
  EXPECT_DOUBLE_EQ(curve.gbps_of(30), 9.0);
  EXPECT_EQ(curve.setting_for(8.8), 20U);
}

TEST(MbaCurveTest, SurvivesItsFile) {
  const MbaCurve curve = curve_of({{10, 4.5}, {100, 20.25}});
  const auto again = parse_curve(format_curve(curve, "n", "stream"), "c.json");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->points().size(), 2U);
  EXPECT_DOUBLE_EQ(again->points()[1].gbps, 20.25);
  EXPECT_EQ(again->unit(), "percent");
}

struct Wrong {
  const char* text;
  const char* sentence;
};

class WrongCurveTest : public testing::TestWithParam<Wrong> {};

TEST_P(WrongCurveTest, IsRefusedInOneSentence) {
  const auto curve = parse_curve(GetParam().text, "c.json");
  ASSERT_FALSE(curve);
  EXPECT_EQ(curve.error().kind, ErrorKind::Input);
  EXPECT_NE(curve.error().message.find(GetParam().sentence), std::string::npos) << curve.error().message;
  EXPECT_NE(curve.error().message.find("c.json"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Files, WrongCurveTest,
    testing::Values(
        Wrong{"", "not a bandwidth curve"}, Wrong{"[1]", "not a bandwidth curve"},
        Wrong{R"({"schema": "x"})", "not a bandwidth curve"},
        Wrong{R"({"schema": "osml/mba-curve/v1"})", "expected \"unit\""},
        Wrong{R"({"schema": "osml/mba-curve/v1", "unit": "percent", "points": []})", "0 points, expected at least 2"},
        Wrong{R"({"schema": "osml/mba-curve/v1", "unit": "furlong", "points": []})", "unit 'furlong'"},
        Wrong{R"({"schema": "osml/mba-curve/v1", "unit": "percent", "points": [3, 4]})", "points[0], expected"},
        Wrong{R"({"schema": "osml/mba-curve/v1", "unit": "percent", "points": [{"setting": -1, "gbps": 1}]})",
              "points[0], expected"},
        Wrong{R"({"schema": "osml/mba-curve/v1", "unit": "percent",
                  "points": [{"setting": 20, "gbps": 1}, {"setting": 10, "gbps": 2}]})",
              "points[1].setting is 10, expected settings in ascending order"},
        Wrong{R"({"schema": "osml/mba-curve/v1", "unit": "percent",
                  "points": [{"setting": 10, "gbps": 0}, {"setting": 20, "gbps": 2}]})",
              "points[0].gbps is 0"}));

// A machine whose throttle gives less than its percentage says, as measured ones do.
struct FakeMachine {
  double now = 0;
  double bytes = 1e9;
  unsigned setting = 100;
  std::vector<unsigned> order;

  CalibrationBench bench() {
    return {[this](unsigned to) -> Status {
              setting = to;
              order.push_back(to);
              return done();
            },
            [this]() -> Result<std::uint64_t> { return static_cast<std::uint64_t>(bytes); },
            [this](double seconds) {
              now += seconds;
              bytes += seconds * 40e9 * std::min(1.0, setting / 60.0);
            },
            [this] { return now; }, [](const CurvePoint&) {}};
  }
};

TEST(CalibrateTest, FindsWhatEachSettingGivesFromTheLargestDown) {
  FakeMachine machine;
  const MbaRange range{10, 100, 10, "percent"};
  const auto curve = calibrate(range, settings_of(range, 20), {}, machine.bench());
  ASSERT_TRUE(curve) << curve.error().message;
  ASSERT_EQ(curve->points().size(), 10U);
  EXPECT_EQ(machine.order.front(), 100U);
  EXPECT_EQ(machine.order.back(), 10U);
  EXPECT_NEAR(curve->gbps_of(30), 20.0, 1e-6);
  EXPECT_NEAR(curve->gbps_of(80), 40.0, 1e-6);
}

TEST(CalibrateTest, AnAntagonistThatDoesNothingIsTold) {
  FakeMachine machine;
  CalibrationBench bench = machine.bench();
  bench.total_bytes = []() -> Result<std::uint64_t> { return std::uint64_t{7}; };
  const auto curve = calibrate({10, 100, 10, "percent"}, {10, 100}, {}, bench);
  ASSERT_FALSE(curve);
  EXPECT_NE(curve.error().message.find("caused no memory traffic"), std::string::npos) << curve.error().message;
}

TEST(CalibrateTest, OneLateLookAtTheCountersDoesNotCount) {
  FakeMachine machine;
  CalibrationBench bench = machine.bench();
  int looks = 0;
  bench.now_s = [&machine, &looks] { return machine.now + (++looks % 6 == 0 ? 10.0 : 0.0); };
  const auto curve = calibrate({10, 60, 10, "percent"}, {10, 30, 60}, {}, bench);
  ASSERT_TRUE(curve) << curve.error().message;
  EXPECT_NEAR(curve->gbps_of(30), 20.0, 1e-6);
}

TEST(CalibrateTest, TheFirstErrorOfTheMachineEndsIt) {
  FakeMachine machine;
  CalibrationBench bench = machine.bench();
  bench.throttle = [](unsigned) -> Status { return Error{ErrorKind::Permission, "no", 0}; };
  const auto curve = calibrate({10, 100, 10, "percent"}, {10, 100}, {}, bench);
  ASSERT_FALSE(curve);
  EXPECT_EQ(curve.error().kind, ErrorKind::Permission);
}

TEST(CalibrateTest, SettingsAreLegalAndIncludeBothEnds) {
  EXPECT_EQ(settings_of({10, 100, 30, "percent"}, 20), (std::vector<unsigned>{10, 40, 70, 100}));
  EXPECT_EQ(settings_of({10, 100, 10, "percent"}, 4), (std::vector<unsigned>{10, 40, 70, 100}));
  EXPECT_EQ(settings_of({1, 3, 0, "percent"}, 20), (std::vector<unsigned>{1, 2, 3}));
}

TEST(BandwidthWatchTest, SaysOnceWhoMovesMoreThanItsThrottleAllows) {
  Platform platform;
  platform.mba = MbaRange{100, 20000, 0, "mbps"};
  Assignment assignment;
  assignment.service = "be";
  assignment.mba = 3000;
  Service service;
  service.name = "be";
  service.counters.bandwidth_total_gbps = 4.5;
  BandwidthWatch watch;
  const auto said = watch.look(platform, {assignment}, {service});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0], "memory bandwidth of be: throttled to 3.00 GB/s, measured 4.50 GB/s");
  EXPECT_TRUE(watch.look(platform, {assignment}, {service}).empty());
  service.counters.bandwidth_total_gbps = 3.1;
  EXPECT_TRUE(watch.look(platform, {assignment}, {service}).empty());
  service.counters.bandwidth_total_gbps = 9;
  EXPECT_EQ(watch.look(platform, {assignment}, {service}).size(), 1U);
}

TEST(BandwidthWatchTest, AThrottleOfACacheDomainAllowsAsMuchInEachOfThem) {
  Platform platform;
  platform.mba = MbaRange{1, 2048, 1, "eighth_gbps", true};
  platform.domains = {{0, "0-3"}, {1, "4-7"}};
  Assignment assignment;
  assignment.service = "be";
  assignment.mba = 64;  // 8 GB/s
  Service service;
  service.name = "be";
  service.counters.bandwidth_total_gbps = 15;
  BandwidthWatch watch;
  EXPECT_TRUE(watch.look(platform, {assignment}, {service}).empty()) << "it may use all CPUs";
  assignment.cpus = "2-5";
  EXPECT_TRUE(watch.look(platform, {assignment}, {service}).empty());
  assignment.cpus = "4-7";
  const auto said = watch.look(platform, {assignment}, {service});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0], "memory bandwidth of be: throttled to 8.00 GB/s, measured 15.00 GB/s");
  platform.mba = MbaRange{100, 20000, 0, "mbps", true};  // mba_MBps
  assignment.mba = 8000;
  assignment.cpus = "2-5";
  EXPECT_TRUE(watch.look(platform, {assignment}, {service}).empty());
  platform.mba->per_domain = false;  // what the agent regulates is of the node
  EXPECT_EQ(watch.look(platform, {assignment}, {service}).size(), 1U);
}

TEST(BandwidthWatchTest, APercentagePromisesNothingAndAMissingMeasurementSaysNothing) {
  Platform platform;
  platform.mba = MbaRange{10, 100, 10, "percent"};
  Assignment assignment;
  assignment.service = "be";
  assignment.mba = 10;
  Service service;
  service.name = "be";
  service.counters.bandwidth_gbps = 90;
  BandwidthWatch watch;
  EXPECT_TRUE(watch.look(platform, {assignment}, {service}).empty());
  platform.mba->unit = "mbps";
  service.counters.bandwidth_gbps.reset();
  EXPECT_TRUE(watch.look(platform, {assignment}, {service}).empty());
}

}  // namespace
}  // namespace osml
