// Counters from fake kernel files: rates need two readings, resets and silent domains have none.
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>

#include "fake_server.h"
#include "sense/cache_monitor.h"
#include "sense/frequency.h"
#include "sense/perf_counters.h"
#include "sense/sensors.h"
#include "sense/usage.h"
#include "tree.h"

namespace osml {
namespace {

using testing_support::Tree;

void write_process(const Tree& tree, int pid, int utime, int stime) {
  const std::string directory = "proc/" + std::to_string(pid);
  tree.write(directory + "/status", "Name:\tx\nVmSize:\t 4096 kB\nVmRSS:\t 2048 kB\nThreads:\t3\n");
  tree.write(directory + "/stat", std::to_string(pid) + " (a) b) S 1 1 1 0 -1 0 1 2 3 4 " + std::to_string(utime) +
                                      " " + std::to_string(stime) + " 0 0 20 0 3 0 100 1 1\n");
  tree.write(directory + "/task/" + std::to_string(pid) + "/children", "");
}

TEST(Usage, ProcessesOfPids) {
  const Tree tree;
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  write_process(tree, 4711, 100, 50);
  Match match;
  match.pids = {4711};
  UsageSensor usage(tree.roots(), match);
  Counters first;
  ASSERT_TRUE(usage.read({1, 1, 1}, first));
  EXPECT_FALSE(first.cpu_usage_cores);
  EXPECT_EQ(first.threads, 3U);
  EXPECT_EQ(first.rss_mib, 2.0);
  EXPECT_EQ(first.vms_mib, 4.0);
  write_process(tree, 4711, 100 + static_cast<int>(ticks), 50 + static_cast<int>(ticks));
  Counters second;
  ASSERT_TRUE(usage.read({2, 3, 2}, second));
  EXPECT_DOUBLE_EQ(*second.cpu_usage_cores, 1.0);
}

TEST(SensorsTest, WhoSharesATelemetryFileHasAnAgeOfItsOwn) {
  const Tree tree;
  tree.write("t.jsonl", "{\"p99_ms\": 4}\n");
  fs::last_write_time(tree / "t.jsonl", fs::file_time_type::clock::now() - std::chrono::seconds(60));
  Config config = tree.config();
  for (ServiceConfig& service : config.services) {
    service.latency = LatencySource{};
    service.latency->file = tree / "t.jsonl";
  }
  config.services[1].latency->max_age_s = 1000;
  Sensors sensors(config, {0}, [](const std::string&) { return std::string(); });
  std::map<std::string, std::string> missing;
  const auto services = sensors.read({1, 1, 1}, {}, {}, missing);
  EXPECT_FALSE(services[0].latency);
  EXPECT_TRUE(services[1].latency);
}

// It writes once an interval, at its own time of it.
TEST(SensorsTest, ALineOfThisIntervalIsNotStaleHoweverLongTheIntervalIs) {
  const Tree tree;
  tree.write("t.jsonl", "{\"p99_ms\": 4}\n");
  fs::last_write_time(tree / "t.jsonl", fs::file_time_type::clock::now() - std::chrono::seconds(5));
  Config config = tree.config();
  config.services.resize(1);
  config.services[0].latency = LatencySource{};
  config.services[0].latency->file = tree / "t.jsonl";
  for (const double interval_s : {1.0, 10.0}) {
    config.interval_s = interval_s;
    Sensors sensors(config, {0}, [](const std::string&) { return std::string(); });
    std::map<std::string, std::string> missing;
    EXPECT_EQ(sensors.read({1, 100, interval_s}, {}, {}, missing)[0].latency.has_value(), interval_s > 5) << interval_s;
  }
}

// What is counted while an endpoint is waited for belongs to the next interval.
TEST(SensorsTest, CountersOfAllServicesAreReadBeforeAnyEndpoint) {
  const Tree tree;
  tree.write("cgroup/cgroup.controllers", "cpu\n");
  tree.write("cgroup/b/cgroup.procs", "").write("cgroup/b/cgroup.threads", "");
  const auto used = [&tree](int seconds) {
    tree.write("cgroup/b/cpu.stat", "usage_usec " + std::to_string(seconds) + "000000\n");
  };
  std::string meanwhile = "{}\n";
  const testing_support::FakeServer server([&](const std::string&) {
    used(9);
    tree.append("b.jsonl", meanwhile);
    return testing_support::http(200, "text/plain", "h_bucket{le=\"+Inf\"} 1\nh_count 1\n");
  });
  Config config = tree.config();
  config.services[0].latency = LatencySource{};
  config.services[0].latency->prometheus.emplace();
  config.services[0].latency->prometheus->url = server.url();
  config.services[0].latency->prometheus->metric = "h";
  config.services[1].counters_file = tree / "b.jsonl";
  tree.write("b.jsonl", "{}\n");
  Sensors sensors(config, {0}, [](const std::string&) { return std::string(); });
  std::map<std::string, std::string> missing;
  used(1);
  EXPECT_FALSE(sensors.read({1, 1, 1}, {}, {}, missing)[1].counters.cpu_usage_cores) << "its first reading";
  used(2);
  tree.append("b.jsonl", "{\"instructions\": 100}\n");
  meanwhile = "{\"instructions\": 1000}\n";
  const auto services = sensors.read({2, 2, 1}, {}, {}, missing);
  EXPECT_EQ(server.requests(), 2);
  EXPECT_EQ(services[1].counters.cpu_usage_cores, 1.0);
  EXPECT_EQ(services[1].counters.instructions, 100);
}

// Pods that ask for services come and go: who stays keeps what was measured of it.
TEST(SensorsTest, TheListOfServicesMayChangeBetweenTwoReadings) {
  const Tree tree;
  const auto ticks = static_cast<int>(::sysconf(_SC_CLK_TCK));
  Config config = tree.config();
  config.services.resize(1);
  config.services[0].match = {};
  config.services[0].match.pids = {4711};
  config.services[0].spec.kind = "be";
  write_process(tree, 4711, 0, 0);
  write_process(tree, 4712, 0, 0);
  Sensors sensors(config, {0}, [](const std::string&) { return std::string(); });
  std::map<std::string, std::string> missing;
  ASSERT_EQ(sensors.read({1, 1, 1}, {}, {}, missing).size(), 1U);
  ServiceConfig asked = config.services[0];
  asked.spec.name = "shop.web";
  asked.match.pids = {4712};
  config.services.insert(config.services.begin(), asked);
  config.services.reserve(100);
  write_process(tree, 4711, ticks, 0);
  auto services = sensors.read({2, 2, 1}, {}, {}, missing);
  ASSERT_EQ(services.size(), 2U);
  EXPECT_EQ(services[0].name, "shop.web");
  EXPECT_FALSE(services[0].counters.cpu_usage_cores) << "its first reading";
  EXPECT_DOUBLE_EQ(*services[1].counters.cpu_usage_cores, 1.0);
  config.services.erase(config.services.begin());
  config.services[0].spec.target_ms = 5;
  services = sensors.read({3, 3, 1}, {}, {}, missing);
  ASSERT_EQ(services.size(), 1U);
  EXPECT_EQ(services[0].target_ms, 5);
  // Only watched: measured, and in no observation.
  Place place;
  place.service = "lc";
  place.match = config.services[0].match;
  place.absent = place.watched = true;
  EXPECT_TRUE(sensors.read({4, 4, 1}, {}, {place}, missing).empty());
  ASSERT_EQ(sensors.watched().size(), 1U);
  EXPECT_EQ(sensors.watched()[0].counters.threads, 3U);
}

// Its id may be the same again, its files too.
TEST(SensorsTest, AServiceThatComesBackIsMeasuredAnew) {
  const Tree tree;
  const auto ticks = static_cast<int>(::sysconf(_SC_CLK_TCK));
  Config config = tree.config();
  config.services.resize(1);
  config.services[0].match = {};
  config.services[0].match.pids = {4711};
  config.services[0].spec.kind = "be";
  config.services[0].latency = LatencySource{};
  config.services[0].latency->file = tree / "t.jsonl";
  const auto state = [&](int seconds) {
    write_process(tree, 4711, seconds * ticks, 0);
    const std::string bytes = std::to_string(seconds) + "000000000\n";
    tree.write("g/mon_data/mon_L3_00/mbm_total_bytes", bytes);
    tree.append("t.jsonl", "{\"samples\": " + std::to_string(seconds) + "}\n");
  };
  Sensors sensors(config, {0}, [&tree](const std::string&) { return (tree / "g").string(); });
  std::map<std::string, std::string> missing;
  Place place;
  place.service = "lc";
  place.match = config.services[0].match;
  const auto read = [&](std::uint64_t turn) {
    return sensors.read({turn, static_cast<double>(turn), 1}, {}, {place}, missing);
  };
  for (const int second : {1, 2}) {
    state(second);
    (void)read(static_cast<std::uint64_t>(second));
  }
  place.absent = true;
  for (int second = 3; second <= 30; ++second) {
    state(second);
    EXPECT_TRUE(read(static_cast<std::uint64_t>(second)).empty());
  }
  place.absent = false;
  state(31);
  auto services = read(31);
  EXPECT_FALSE(services[0].counters.cpu_usage_cores) << "29 s of it were not in this interval";
  EXPECT_FALSE(services[0].counters.bandwidth_total_gbps);
  EXPECT_EQ(services[0].latency->samples, 31U) << "lines of the absence are history";
  state(32);
  services = read(32);
  EXPECT_DOUBLE_EQ(*services[0].counters.cpu_usage_cores, 1.0);
  EXPECT_DOUBLE_EQ(*services[0].counters.bandwidth_total_gbps, 1.0);
}

// A process may write its last line shortly before it ends, and the next one its first line late.
TEST(SensorsTest, ALineFromBeforeAnAbsenceIsNotThatOfTheReturn) {
  const Tree tree;
  tree.write("t.jsonl", "{\"p99_ms\": 4, \"ipc\": 1}\n");
  Config config = tree.config();
  config.interval_s = 60;
  config.services.resize(1);
  config.services[0].latency = LatencySource{};
  config.services[0].latency->file = tree / "t.jsonl";
  config.services[0].counters_file = tree / "t.jsonl";
  Sensors sensors(config, {0}, [](const std::string&) { return std::string(); });
  std::map<std::string, std::string> missing;
  Place place;
  place.service = "lc";
  place.match = config.services[0].match;
  auto read = [&, turn = std::uint64_t{0}]() mutable {
    missing.clear();
    ++turn;
    return sensors.read({turn, static_cast<double>(turn) * 60, 60}, {}, {place}, missing);
  };
  EXPECT_TRUE(read()[0].latency);
  place.absent = true;
  tree.append("t.jsonl", "{\"p99_ms\": 5, \"ipc\": 2}\n");
  EXPECT_TRUE(read().empty());
  place.absent = false;
  auto services = read();
  EXPECT_FALSE(services[0].latency);
  EXPECT_FALSE(services[0].counters.ipc);
  for (const char* key : {"latency.lc", "counters.lc"}) {
    EXPECT_NE(missing[key].find("no line since the service came back"), std::string::npos) << missing[key];
  }
  tree.append("t.jsonl", "{\"p99_ms\": 6, \"ipc\": 3}\n");
  services = read();
  ASSERT_TRUE(services[0].latency) << missing["latency.lc"];
  EXPECT_EQ(services[0].latency->p99_ms, 6.0);
  EXPECT_EQ(services[0].counters.ipc, 3.0);
  EXPECT_TRUE(read()[0].latency) << "as old as max_age_s says";
}

// Else a series would alternate between the file and the kernel.
TEST(SensorsTest, AnAmountThatAFileHasNowAndThenIsNeverTheKernels) {
  const Tree tree;
  tree.write("cgroup/cgroup.controllers", "cpu cpuset memory\n");
  tree.write("cgroup/a/cgroup.procs", "4711\n").write("cgroup/a/cgroup.threads", "4711\n");
  write_process(tree, 4711, 0, 0);
  tree.write("t.jsonl", "{\"throttled_s\": 0.5}\n");
  Config config = tree.config();
  config.services.resize(1);
  config.services[0].counters_file = tree / "t.jsonl";
  Sensors sensors(config, {0}, [](const std::string&) { return std::string(); });
  const auto read = [&](std::uint64_t turn) {
    std::map<std::string, std::string> missing;
    tree.write("cgroup/a/cpu.stat", "usage_usec 1\nthrottled_usec " + std::to_string(turn * 100000) + "\n");
    return sensors.read({turn, static_cast<double>(turn), 1}, {}, {}, missing)[0].counters.throttled_s;
  };
  EXPECT_FALSE(read(1));
  tree.append("t.jsonl", "{\"throttled_s\": 0.5}\n");
  EXPECT_EQ(read(2), 0.5);
  EXPECT_FALSE(read(3)) << "0.1 of the kernel";
  EXPECT_FALSE(read(90)) << "nor where the file is stale";
  fs::remove(tree / "t.jsonl");
  EXPECT_NEAR(read(91).value_or(0), 0.1, 1e-9) << "without the file there is one source";
}

TEST(SensorsTest, ALatencyWithoutThePercentileOfTheTargetHasAReason) {
  const Tree tree;
  tree.write("t.jsonl", "{\"p50_ms\": 4}\n");
  Config config = tree.config();
  config.services.resize(1);
  config.services[0].spec.target_ms = 5;
  config.services[0].latency = LatencySource{};
  config.services[0].latency->file = tree / "t.jsonl";
  Sensors sensors(config, {0}, [](const std::string&) { return std::string(); });
  std::map<std::string, std::string> missing;
  EXPECT_EQ(sensors.read({1, 1, 1}, {}, {}, missing)[0].latency->p50_ms, 4);
  EXPECT_EQ(missing["latency.lc"],
            "the latency has no p99_ms, the percentile of the target; send it, or set percentile");
  config.services[0].spec.percentile = "p50";
  missing.clear();
  (void)sensors.read({2, 2, 1}, {}, {}, missing);
  EXPECT_FALSE(missing.contains("latency.lc")) << missing["latency.lc"];
}

TEST(Usage, GoneProcessesSayWhy) {
  const Tree tree;
  Match match;
  match.pids = {4711};
  UsageSensor usage(tree.roots(), match);
  Counters counters;
  const Status read = usage.read({1, 1, 1}, counters);
  ASSERT_FALSE(read);
  EXPECT_FALSE(counters.threads);
  EXPECT_FALSE(counters.rss_mib);
}

TEST(Usage, CgroupTwoCountsCpuAndThrottling) {
  const Tree tree;
  tree.write("cgroup/cgroup.controllers", "cpu cpuset memory\n");
  tree.write("cgroup/lc/moses/cgroup.procs", "4711\n");
  tree.write("cgroup/lc/moses/cgroup.threads", "4711\n");
  tree.write("cgroup/lc/moses/cpu.stat", "usage_usec 1000000\nnr_throttled 1\nthrottled_usec 500000\n");
  write_process(tree, 4711, 0, 0);
  Match match;
  match.cgroup = "lc/moses";
  UsageSensor usage(tree.roots(), match);
  Counters counters;
  ASSERT_TRUE(usage.read({1, 1, 1}, counters));
  EXPECT_FALSE(counters.cpu_usage_cores);
  tree.write("cgroup/lc/moses/cpu.stat", "usage_usec 4000000\nnr_throttled 1\nthrottled_usec 750000\n");
  ASSERT_TRUE(usage.read({2, 3, 2}, counters));
  EXPECT_DOUBLE_EQ(*counters.cpu_usage_cores, 1.5);
  EXPECT_DOUBLE_EQ(*counters.throttled_s, 0.25);
  EXPECT_EQ(counters.threads, 3U);
  tree.write("cgroup/lc/moses/cpu.stat", "usage_usec 10\nthrottled_usec 0\n");
  Counters after_reset;
  ASSERT_TRUE(usage.read({3, 4, 1}, after_reset));
  EXPECT_FALSE(after_reset.cpu_usage_cores);
}

TEST(Usage, MemoryOfACgroupCountsWhatProcessesShareOnce) {
  Tree tree;
  tree.cgroup2("a", 4711);
  tree.write("cgroup/a/cpu.stat", "usage_usec 1\n");
  tree.write("cgroup/a/cgroup.procs", "4711\n4712\n");
  write_process(tree, 4711, 0, 0);
  write_process(tree, 4712, 0, 0);
  Match match;
  match.cgroup = "a";
  const auto rss_mib = [&] {
    UsageSensor usage(tree.roots(), match);
    Counters counters;
    EXPECT_TRUE(usage.read({1, 1, 1}, counters));
    return counters.rss_mib;
  };
  EXPECT_EQ(rss_mib(), 4.0) << "of two processes, where the cgroup does not count";
  tree.write("cgroup/a/memory.current", "5242880\n");
  EXPECT_EQ(rss_mib(), 4.0) << "files may be most of it";
  tree.write("cgroup/a/memory.stat", "anon 3145728\nfile 2097152\ninactive_file 2097152\n");
  EXPECT_EQ(rss_mib(), 3.0);
}

TEST(CpuTicks, TheNameMayHoldAnything) {
  EXPECT_EQ(cpu_ticks("1 (a) ) (b) S 1 1 1 0 -1 0 0 0 0 0 7 5 0"), 12U);
  EXPECT_FALSE(cpu_ticks("1 (a) S 1 1"));
  EXPECT_FALSE(cpu_ticks("garbage"));
}

TEST(PerfReadings, AreScaledOverTheIntervalNotOverTheLifeOfTheThread) {
  const PerfReading before{1000, 3600, 3600};  // alone all the time, and now with half of it
  EXPECT_DOUBLE_EQ(*counted_between(before, {1100, 3700, 3650}), 200);
  EXPECT_DOUBLE_EQ(*counted_between(before, before), 0) << "it slept";
  EXPECT_FALSE(counted_between(before, {1000, 3700, 3600})) << "it ran, and nobody counted";
  EXPECT_DOUBLE_EQ(*counted_between({}, {50, 10, 10}), 50);
}

TEST(PerfReadings, WhatNobodyCountedIsScaledWhereItIsLittle) {
  PerfSum sum;
  EXPECT_FALSE(sum.value()) << "no thread at all";
  EXPECT_TRUE(sum.known());
  sum.add({}, {0, 0, 0});
  EXPECT_EQ(sum.value(), 0.0) << "it slept";
  sum.add({}, {990, 9900, 9900});
  EXPECT_EQ(sum.value(), 990.0);
  sum.add({1000, 3600, 3600}, {1000, 3700, 3600});
  ASSERT_TRUE(sum.value());
  EXPECT_DOUBLE_EQ(*sum.value(), 1000) << "one thread ran for a moment without its counter";
  sum.add({}, {0, 500, 0});
  EXPECT_FALSE(sum.value());
  ASSERT_FALSE(sum.known());
  EXPECT_NE(sum.known().error().message.find("no hardware counter was free in 6 % of the time"), std::string::npos)
      << sum.known().error().message;
  PerfSum nobody;
  nobody.add({}, {0, 100, 0});
  EXPECT_FALSE(nobody.value());
}

TEST(CacheMonitor, SumsDomainsAndSeesResets) {
  const Tree tree;
  const auto write = [&tree](const char* domain, const std::string& occupancy, const std::string& local) {
    tree.write("g/mon_data/" + std::string(domain) + "/llc_occupancy", occupancy + "\n");
    tree.write("g/mon_data/" + std::string(domain) + "/mbm_local_bytes", local + "\n");
  };
  write("mon_L3_00", "1048576", "0");
  write("mon_L3_08", "1048576", "1000000000");
  CacheMonitor monitor;
  const std::string group = (tree / "g").string();
  Counters first;
  monitor.read(group, {1, 1, 1}, first);
  EXPECT_EQ(first.llc_occupancy_mib, 2.0);
  EXPECT_FALSE(first.bandwidth_gbps);
  EXPECT_FALSE(first.bandwidth_total_gbps);

  write("mon_L3_00", "1048576", "3000000000");
  Counters second;
  monitor.read(group, {2, 3, 2}, second);
  EXPECT_DOUBLE_EQ(*second.bandwidth_gbps, 1.5);

  write("mon_L3_00", "Unavailable", "Unavailable");
  Counters silent;
  monitor.read(group, {3, 4, 1}, silent);
  EXPECT_FALSE(silent.llc_occupancy_mib);
  EXPECT_FALSE(silent.bandwidth_gbps);

  write("mon_L3_00", "0", "5");
  Counters again;
  monitor.read(group, {4, 5, 1}, again);
  EXPECT_EQ(again.llc_occupancy_mib, 1.0);
  EXPECT_FALSE(again.bandwidth_gbps);
}

// A domain that went off and came back begins at 0, and the others may have gained more than it lost.
TEST(CacheMonitor, AResetOfOneDomainIsNoTrafficOfTheOthers) {
  const Tree tree;
  const auto write = [&tree](const std::string& first, const std::string& second) {
    tree.write("g/mon_data/mon_L3_00/mbm_local_bytes", first + "000000000\n");
    tree.write("g/mon_data/mon_L3_01/mbm_local_bytes", second + "000000000\n");
  };
  CacheMonitor monitor;
  auto read = [&, turn = std::uint64_t{0}]() mutable {
    Counters counters;
    monitor.read((tree / "g").string(), {++turn, static_cast<double>(turn), 1}, counters);
    return counters.bandwidth_gbps;
  };
  write("5", "3");
  EXPECT_FALSE(read());
  write("15", "0");
  EXPECT_FALSE(read());
  write("16", "2");
  EXPECT_EQ(read(), 3.0);
}

TEST(CacheMonitor, ADomainThatComesOnlineIsCountedAfterAMinute) {
  const Tree tree;
  tree.write("g/mon_data/mon_L3_00/llc_occupancy", "1048576\n");
  CacheMonitor monitor;
  auto read = [&, turn = std::uint64_t{0}](double now_s) mutable {
    Counters counters;
    monitor.read((tree / "g").string(), {++turn, now_s, 1}, counters);
    return counters.llc_occupancy_mib;
  };
  EXPECT_EQ(read(0), 1.0);
  tree.write("g/mon_data/mon_L3_01/llc_occupancy", "1048576\n");
  EXPECT_EQ(read(1), 1.0) << "a look costs as much as reading a domain";
  EXPECT_EQ(read(60), 2.0);
}

TEST(CacheMonitor, NoGroupIsMissing) {
  CacheMonitor monitor;
  Counters counters;
  monitor.read("", {1, 1, 1}, counters);
  monitor.read("/nonexistent", {2, 2, 1}, counters);
  EXPECT_FALSE(counters.llc_occupancy_mib);
}

TEST(Frequency, MeanOverTheCpusOfTheService) {
  const Tree tree;
  tree.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n");
  tree.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000\n");
  FrequencySensor sensor(tree / "sys", {0, 1, 2}, [] { return 0.0; });
  ASSERT_TRUE(sensor.available());
  EXPECT_DOUBLE_EQ(*sensor.mean_ghz({0, 1}, {1, 1, 1}), 2.5);
  EXPECT_DOUBLE_EQ(*sensor.mean_ghz({1}, {1, 1, 1}), 3.0);
  EXPECT_FALSE(sensor.mean_ghz({2}, {1, 1, 1}));
  EXPECT_FALSE(FrequencySensor(tree / "none", {0}).available());
}

TEST(Frequency, WhereReadingIsSlowTheCpusTakeTurns) {
  const Tree tree;
  for (int cpu = 0; cpu < 3; ++cpu) {
    tree.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/scaling_cur_freq",
               std::to_string(cpu + 1) + "000000\n");
  }
  double wall_s = 0;
  FrequencySensor sensor(tree / "sys", {0, 1, 2}, [&wall_s] { return wall_s += 0.010; });
  EXPECT_DOUBLE_EQ(*sensor.mean_ghz({0, 1, 2}, {1, 1, 1}), 1.0) << "the others were not read yet";
  EXPECT_DOUBLE_EQ(*sensor.mean_ghz({0, 1, 2}, {2, 2, 1}), 1.5);
  EXPECT_DOUBLE_EQ(*sensor.mean_ghz({0, 1, 2}, {3, 3, 1}), 2.0);
  tree.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "7000000\n");
  EXPECT_DOUBLE_EQ(*sensor.mean_ghz({0, 1, 2}, {4, 4, 1}), 4.0);
}

// No hardware PMU in most test machines: software events of the same call stand in for them.
TEST(PerfCounters, CountsThreadsFromWhenTheyWereSeen) {
  const PerfEvents software = {PerfEvent{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
                               PerfEvent{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
                               PerfEvent{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS}};
  if (const Status probed = probe_perf(software); !probed) GTEST_SKIP() << probed.error().message;
  PerfCounters perf(software);
  const std::vector<pid_t> tids = {static_cast<pid_t>(::syscall(SYS_gettid))};
  Counters first;
  ASSERT_TRUE(perf.read(tids, first));
  EXPECT_FALSE(first.instructions);
  volatile double busy = 0;
  for (int i = 0; i < 1000000; ++i) busy = busy + i;
  Counters second;
  ASSERT_TRUE(perf.read(tids, second));
  ASSERT_TRUE(second.instructions);
  EXPECT_GT(*second.instructions, 0);
  ASSERT_TRUE(second.ipc);
  EXPECT_NEAR(*second.ipc, 1.0, 0.5);
  Counters gone;
  ASSERT_TRUE(perf.read({}, gone));
  Counters after;
  ASSERT_TRUE(perf.read({}, after));
  EXPECT_FALSE(after.instructions);
}

// Of a pod, which makes as many threads as it likes.
TEST(PerfCounters, MoreThreadsThanTheAgentCountsAreAReason) {
  PerfCounters perf(hardware_events());
  std::vector<pid_t> tids(2049, static_cast<pid_t>(::syscall(SYS_gettid)));
  Counters counters;
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = descriptors();
  const Status read = perf.read(tids, counters);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("the service has 2049 threads, the agent counts at most 2048"), std::string::npos)
      << read.error().message;
  EXPECT_EQ(descriptors(), before);
  EXPECT_FALSE(counters.instructions);
}

TEST(PerfCounters, UnknownEventIsAReasonAndNotZero) {
  const PerfEvents nonsense = {PerfEvent{PERF_TYPE_HARDWARE, 4096}, {}, {}};
  const Status probed = probe_perf(nonsense);
  ASSERT_FALSE(probed);
  EXPECT_FALSE(probed.error().message.empty());
}

TEST(Sensors, WhatIsMissingIsSaidPerService) {
  const Tree tree;
  Config config;
  config.roots = tree.roots();
  ServiceConfig moses;
  moses.spec.name = "moses";
  moses.match.pids = {4711};
  moses.latency.emplace().file = tree / "moses.jsonl";
  moses.counters_file = tree / "moses.jsonl";
  config.services = {moses};
  write_process(tree, 4711, 1, 1);
  Sensors sensors(config, {0}, [](const std::string&) { return std::string(); });

  std::map<std::string, std::string> missing;
  auto services = sensors.read({1, 1, 1}, {}, {}, missing);
  EXPECT_EQ(missing.count("latency.moses"), 1U);
  EXPECT_EQ(missing.count("counters.moses"), 1U);
  EXPECT_EQ(missing.count("frequency"), 1U);
  EXPECT_EQ(missing.count("perf_events"), 1U);
  EXPECT_FALSE(services.at(0).latency);

  tree.write("moses.jsonl", "{\"p99_ms\": 8, \"ipc\": 0.5, \"threads\": 8}\n");
  missing.clear();
  services = sensors.read({2, 2, 1}, {}, {}, missing);
  EXPECT_EQ(missing.count("latency.moses"), 0U);
  EXPECT_EQ(services.at(0).latency->p99_ms, 8.0);
  EXPECT_EQ(services.at(0).counters.ipc, 0.5);
  EXPECT_EQ(services.at(0).counters.threads, 8U);  // what the file says wins over /proc
  EXPECT_EQ(services.at(0).counters.rss_mib, 2.0);
}

}  // namespace
}  // namespace osml
