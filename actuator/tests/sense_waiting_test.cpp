// Sensors of waiting from fake kernel files: pressure stalls, schedstat, steal. Rates need two readings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sense/host.h"
#include "sense/pressure.h"
#include "sense/run_delay.h"
#include "sense/usage.h"
#include "tree.h"

namespace osml {
namespace {

using testing_support::Tree;

std::string stalls(std::uint64_t total_us) {
  return "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(total_us) +
         "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
}

TEST(Stalls, TheTotalOfTheLineSome) {
  EXPECT_EQ(stalled_us(stalls(8341175621)), 8341175621U);
  EXPECT_EQ(stalled_us("full avg10=0.00 total=9\nsome avg10=1.00 total=3\n"), 3U);
  EXPECT_FALSE(stalled_us(""));
  EXPECT_FALSE(stalled_us("some avg10=0.00\n"));
  EXPECT_FALSE(stalled_us("some total=x\n"));
}

TEST(Pressure, SharesOfTheIntervalAndWhatIsNotThereIsMissing) {
  const Tree tree;
  tree.write("cpu", stalls(1'000'000));
  tree.write("io", stalls(0));
  Pressure pressure(tree / "cpu", tree / "memory", tree / "io");
  EXPECT_TRUE(pressure.available());
  EXPECT_FALSE(pressure.read({1, 1, 1}).cpu);
  tree.write("cpu", stalls(1'500'000));
  tree.write("io", stalls(9'000'000));
  const PressureShares second = pressure.read({2, 3, 2});
  EXPECT_DOUBLE_EQ(*second.cpu, 0.25);
  EXPECT_FALSE(second.memory);
  EXPECT_DOUBLE_EQ(*second.io, 1.0) << "a clock that was late makes no share above 1";
  tree.write("cpu", stalls(5));
  EXPECT_FALSE(pressure.read({3, 4, 1}).cpu) << "the total went backwards: another cgroup";
}

TEST(Schedstat, WaitAndSlices) {
  const auto parsed = parse_schedstat("818528 1840997 4");
  ASSERT_TRUE(parsed);
  EXPECT_DOUBLE_EQ(parsed->delay_s, 1840997e-9);
  EXPECT_EQ(parsed->switches, 4);
  EXPECT_FALSE(parse_schedstat("1 2"));
  EXPECT_FALSE(parse_schedstat(""));
  EXPECT_FALSE(parse_schedstat("a b c"));
}

TEST(RunDelay, GrowsOverThreadsThatStay) {
  const Tree tree;
  const auto write = [&tree](int tid, double waited_s, int slices) {
    tree.write("proc/" + std::to_string(tid) + "/schedstat",
               "99 " + std::to_string(static_cast<std::uint64_t>(waited_s * 1e9)) + " " + std::to_string(slices));
  };
  write(10, 5.0, 100);
  write(11, 1.0, 10);
  RunDelaySensor sensor(tree / "proc");
  EXPECT_FALSE(sensor.read({10, 11}));
  write(10, 5.25, 140);
  write(12, 50.0, 9);  // it came in between: what it waited before is not known
  const auto waited = sensor.read({10, 12, 13});
  ASSERT_TRUE(waited);
  EXPECT_DOUBLE_EQ(waited->delay_s, 0.25);
  EXPECT_EQ(waited->switches, 40);
  EXPECT_EQ(sensor.why(), "");
  EXPECT_FALSE(sensor.read(std::vector<pid_t>(1000, 10)));
  EXPECT_EQ(sensor.why(), "the service has 1000 threads, the agent reads at most 512");
  RunDelaySensor blind(tree / "nowhere");
  EXPECT_FALSE(blind.read({10}));
  EXPECT_THAT(blind.why(), testing::HasSubstr("schedstat cannot be read"));
}

constexpr const char* stat_before =
    "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 0 0 100 0 0 0 10 0 0\ncpu1 100 0 0 100 0 0 0 0 0 0\n"
    "cpu2 0 0 0 0 0 0 0 7 0 0\nintr 1\n";
constexpr const char* stat_after =
    "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 150 0 0 120 0 0 0 40 0 0\ncpu1 150 0 0 150 0 0 0 0 9 9\n"
    "cpu2 0 0 0 0 0 0 0 99 0 0\nintr 1\n";

TEST(CpuTimes, OnlyTheCpusOfTheNode) {
  const auto times = cpu_times(stat_before, {0, 1});
  ASSERT_TRUE(times);
  EXPECT_EQ(times->total, 410);
  EXPECT_EQ(times->stolen, 10);
  EXPECT_FALSE(cpu_times("cpu 1 2 3\nintr 4\n", {0}));
  EXPECT_FALSE(cpu_times("", {0}));
}

TEST(Host, StealIsAShareOfTheTimeOfItsCpus) {
  const Tree tree;
  tree.write("proc/stat", stat_before);
  tree.write("proc/pressure/memory", stalls(0));
  HostSensor sensor(tree / "proc", {0, 1});
  EXPECT_TRUE(sensor.has_pressure());
  EXPECT_FALSE(sensor.read({1, 1, 1}).steal);
  tree.write("proc/stat", stat_after);
  tree.write("proc/pressure/memory", stalls(250'000));
  const Host host = sensor.read({2, 2, 1});
  EXPECT_DOUBLE_EQ(*host.steal, 30.0 / 200.0);
  EXPECT_DOUBLE_EQ(*host.memory_pressure, 0.25);
  EXPECT_FALSE(host.cpu_pressure);
  EXPECT_FALSE(HostSensor(tree / "nowhere", {0}).has_pressure());
}

TEST(Usage, PressureOfACgroupIsAsMeasured) {
  const Tree tree;
  tree.write("cgroup/cgroup.controllers", "cpu\n");
  tree.write("cgroup/lc/cgroup.procs", "");
  tree.write("cgroup/lc/cgroup.threads", "");
  tree.write("cgroup/lc/cpu.stat", "usage_usec 1000000\nthrottled_usec 0\n");
  tree.write("cgroup/lc/cpu.pressure", stalls(0));
  tree.write("cgroup/lc/memory.pressure", stalls(0));
  Match match;
  match.cgroup = "lc";
  UsageSensor usage(tree.roots(), match);
  Counters counters;
  ASSERT_TRUE(usage.read({1, 1, 1}, counters));
  EXPECT_FALSE(counters.cpu_pressure);
  tree.write("cgroup/lc/cpu.pressure", stalls(500'000));
  tree.write("cgroup/lc/memory.pressure", stalls(125'000));
  ASSERT_TRUE(usage.read({2, 2, 1}, counters));
  EXPECT_DOUBLE_EQ(*counters.cpu_pressure, 0.5);
  EXPECT_DOUBLE_EQ(*counters.memory_pressure, 0.125);
  EXPECT_FALSE(counters.io_pressure);
}

}  // namespace
}  // namespace osml
