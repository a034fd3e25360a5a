// The agent's own figures: every series from the start, counters that never fall, a file that is never half.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>

#include "base/number.h"
#include "report/metrics.h"
#include "report/metrics_file.h"
#include "scratch_tree.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing_support::ScratchTree;

// Sample (with labels, without the node) -> value; fails on what is no exposition.
std::map<std::string, double> samples(const std::string& text) {
  std::map<std::string, double> found;
  for (const std::string_view line : split_lines(text)) {
    if (line.starts_with("# ")) continue;
    const std::size_t blank = line.rfind(' ');
    std::string name(line.substr(0, blank));
    for (const char* node : {"{node=\"n1\"}", "node=\"n1\","}) {
      if (const std::size_t at = name.find(node); at != std::string::npos) name.erase(at, std::strlen(node));
    }
    const auto value = parse_double(line.substr(blank + 1));
    EXPECT_TRUE(value) << line;
    EXPECT_TRUE(found.emplace(name, value.value_or(0)).second) << "twice: " << line;
  }
  return found;
}

std::map<std::string, double> samples(const AgentMetrics& metrics) { return samples(metrics.text("n1", true, false)); }

TEST(AgentMetrics, EverySeriesIsThereFromTheStart) {
  const auto before = samples(AgentMetrics(1e9));
  AgentMetrics metrics(1e9);
  TurnReport report;
  report.outcome = Outcome{1, OutcomeStatus::Applied, "", 1.0};
  report.server_ms = 2;
  report.count(KernelWork::Apply);
  metrics.turn(report, 1e9 + 1, 0.01, 0);
  const auto after = samples(metrics);
  for (const auto& [name, value] : after) EXPECT_TRUE(before.contains(name)) << name;
  EXPECT_EQ(before.at("osml_agent_decisions_total{outcome=\"applied\"}"), 0);
  EXPECT_EQ(after.at("osml_agent_decisions_total{outcome=\"applied\"}"), 1);
  EXPECT_EQ(after.at("osml_agent_kernel_errors_total{work=\"apply\"}"), 1);
  EXPECT_EQ(after.at("osml_agent_last_decision_time_seconds"), 1e9 + 1);
  EXPECT_EQ(after.at("osml_agent_state{state=\"deciding\"}"), 1);
  EXPECT_DOUBLE_EQ(after.at("osml_agent_server_seconds_sum"), 0.002);
  EXPECT_GT(after.at("osml_agent_resident_memory_bytes"), 1e6);
}

TEST(AgentMetrics, WaitsAddUpAndWhatIsNotMeasuredHasNoSample) {
  AgentMetrics metrics(100);
  TurnReport report;
  report.host.steal = 0.25;
  report.host.memory_pressure = 0.5;
  report.run_delay_s = {{"moses", 0.5}};
  metrics.turn(report, 101, 0.01, 0);
  metrics.turn(report, 102, 0.01, 0);
  const auto now = samples(metrics);
  EXPECT_EQ(now.at("osml_agent_steal_ratio"), 0.25);
  EXPECT_EQ(now.at("osml_agent_pressure_ratio{resource=\"memory\"}"), 0.5);
  EXPECT_FALSE(now.contains("osml_agent_pressure_ratio{resource=\"cpu\"}"));
  EXPECT_EQ(now.at("osml_agent_run_delay_seconds_total{service=\"moses\"}"), 1.0);
  metrics.turn({}, 103, 0.01, 0);
  EXPECT_FALSE(samples(metrics).contains("osml_agent_steal_ratio"));
  EXPECT_EQ(samples(metrics).at("osml_agent_run_delay_seconds_total{service=\"moses\"}"), 1.0);
}

TEST(AgentMetrics, SilenceShowsAsStateReasonAndAge) {
  AgentMetrics metrics(100);
  metrics.turn({}, 101, 0.01, 0);
  TurnReport silent;
  silent.state = AgentState::FallenBack;
  silent.failure = AskFailure::Busy;
  silent.fell_back = true;
  silent.missing = {"latency.moses", "perf_events"};
  TurnReport nobody_there;
  nobody_there.idle = true;
  metrics.turn(nobody_there, 101.5, 0.01, 0);
  metrics.turn(silent, 102, 0.01, 3);
  const auto now = samples(metrics);
  EXPECT_EQ(now.at("osml_agent_state{state=\"fallback\"}"), 1);
  EXPECT_EQ(now.at("osml_agent_state{state=\"deciding\"}"), 0);
  EXPECT_EQ(now.at("osml_agent_no_decision_total{reason=\"busy\"}"), 1);
  EXPECT_EQ(now.at("osml_agent_fallbacks_total"), 1);
  EXPECT_EQ(now.at("osml_agent_last_decision_time_seconds"), 101);
  EXPECT_EQ(now.at("osml_agent_last_turn_time_seconds"), 102);
  EXPECT_EQ(now.at("osml_agent_turns_skipped_total"), 3);
  EXPECT_EQ(now.at("osml_agent_missing"), 2);
  EXPECT_EQ(now.at("osml_agent_missing_info{what=\"latency.moses\"}"), 1);
  const auto stopped = samples(metrics.text("n1", false, false));
  EXPECT_EQ(stopped.at("osml_agent_up"), 0);
  EXPECT_EQ(stopped.at("osml_agent_state{state=\"fallback\"}"), 0);
}

TEST(AgentMetrics, InterruptsAreThoseOfNowAndWhatOthersMovedAddsUpOverReloads) {
  AgentMetrics metrics(100);
  for (const std::uint64_t moved : {3U, 5U, 1U}) {  // the last one after a reload
    TurnReport report;
    report.interrupts = {2, 1, moved, ""};
    metrics.turn(report, 101, 0.01, 0);
  }
  const auto now = samples(metrics);
  EXPECT_EQ(now.at("osml_agent_interrupts_kept_away"), 2);
  EXPECT_EQ(now.at("osml_agent_interrupts_fixed"), 1);
  EXPECT_EQ(now.at("osml_agent_interrupts_moved_by_others_total"), 6);
}

TEST(AgentMetrics, SaysTheIntervalThatIsConfiguredNow) {
  AgentMetrics metrics(100);
  const TelemetrySockets sockets;
  Config config;
  for (const double interval_s : {300.0, 1.0}) {
    config.interval_s = interval_s;
    metrics.see(config, sockets, nullptr);
    EXPECT_EQ(samples(metrics).at("osml_agent_interval_seconds"), interval_s);
  }
}

TEST(AgentMetrics, AServiceThatAReloadAddedIsNotSaidToBeThereBeforeItWasLookedFor) {
  AgentMetrics metrics(100);
  TurnReport report;
  report.services = {"moses", "web"};
  report.absent = {"web"};
  metrics.turn(report, 101, 0.01, 0);
  Config config;
  for (const char* name : {"moses", "web", "new"}) config.services.emplace_back().spec.name = name;
  metrics.see(config, TelemetrySockets(), nullptr);
  const auto now = samples(metrics);
  EXPECT_EQ(now.at("osml_agent_service_absent{service=\"moses\"}"), 0);
  EXPECT_EQ(now.at("osml_agent_service_absent{service=\"web\"}"), 1);
  EXPECT_FALSE(now.contains("osml_agent_service_absent{service=\"new\"}"));
  EXPECT_FALSE(now.contains("osml_agent_service_watched{service=\"new\"}"));
  EXPECT_EQ(now.at("osml_agent_services"), 3);
}

TEST(AgentMetrics, ReportsToTheClusterAddUpOverReloads) {
  AgentMetrics metrics(100);
  ReportCounts counts;
  counts.results.at(static_cast<std::size_t>(ApiResult::Busy)) = 3;
  counts.merged = 2;
  metrics.see(counts);
  metrics.see(ReportCounts{});
  counts.results.at(static_cast<std::size_t>(ApiResult::Busy)) = 1;
  counts.merged = 0;
  metrics.see(counts);
  EXPECT_EQ(samples(metrics).at("osml_agent_kubernetes_reports_total{result=\"busy\"}"), 4);
  EXPECT_EQ(samples(metrics).at("osml_agent_kubernetes_reports_total{result=\"written\"}"), 0);
  EXPECT_EQ(samples(metrics).at("osml_agent_kubernetes_events_merged_total"), 2);
}

TEST(AgentMetrics, ATotalGoesOnWhereItsSourceBeginsAgain) {
  Growth growth;
  growth.see(5);
  growth.see(9);
  EXPECT_EQ(growth.total(), 9U);
  growth.see(0);
  growth.see(2);
  EXPECT_EQ(growth.total(), 11U);
}

TEST(AgentMetrics, DatagramsHaveSeriesBeforeTheFirstOne) {
  const ScratchTree tree;
  Config config;
  config.services.resize(1);
  config.services[0].spec.name = "moses";
  config.services[0].latency.emplace().datagram = tree / "m.sock";
  TelemetrySockets sockets;
  AgentMetrics metrics(0);
  metrics.see(config, sockets, nullptr);
  EXPECT_EQ(samples(metrics).at("osml_agent_datagrams_total{service=\"moses\",status=\"ignored\"}"), 0);
}

TEST(AgentMetrics, DatagramsGoOnWhereTheSocketIsAnother) {
  const ScratchTree tree;
  Config config;
  config.services.resize(1);
  config.services[0].spec.name = "moses";
  TelemetrySockets sockets;
  AgentMetrics metrics(0);
  // Two that make no sense by way of one socket; then, by another, one of these and one that does.
  for (const auto& [name, second] : {std::pair("old.sock", "junk"), std::pair("new.sock", "{}")}) {
    const fs::path path = tree / name;
    config.services[0].latency.emplace().datagram = path;
    const auto socket = sockets.get(path, 0600);
    ASSERT_TRUE(socket) << socket.error().message;
    for (const std::string text : {"junk", second}) {
      const Fd sender(::socket(AF_UNIX, SOCK_DGRAM, 0));
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      path.native().copy(address.sun_path, sizeof(address.sun_path) - 1);
      const auto* to = reinterpret_cast<const sockaddr*>(&address);
      ASSERT_EQ(::sendto(sender.get(), text.data(), text.size(), 0, to, sizeof(address)),
                static_cast<ssize_t>(text.size()));
    }
    (*socket)->take();
    metrics.see(config, sockets, nullptr);
  }
  const auto found = samples(metrics);
  EXPECT_EQ(found.at("osml_agent_datagrams_total{service=\"moses\",status=\"read\"}"), 1);
  EXPECT_EQ(found.at("osml_agent_datagrams_total{service=\"moses\",status=\"ignored\"}"), 3);
}

TEST(AgentMetrics, NamesCannotBreakTheFormat) {
  AgentMetrics metrics(0);
  TurnReport report;
  report.missing = {"a\"b\\c\nd"};
  metrics.turn(report, 1, 0, 0);
  EXPECT_THAT(metrics.text("n1", true, false), HasSubstr("what=\"a\\\"b\\\\c d\"} 1\n"));
}

TEST(MetricsFile, IsReplacedWholeAndReadableByOthers) {
  const ScratchTree tree;
  const fs::path file = tree / "osml.prom";
  ASSERT_TRUE(replace_metrics_file(file, "a 1\n"));
  const Fd reader(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(replace_metrics_file(file, "a 2\nb 3\n"));
  std::array<char, 16> old{};
  EXPECT_EQ(::read(reader.get(), old.data(), old.size()), 4) << "who has it open reads the old one to its end";
  EXPECT_EQ(tree.text("osml.prom"), "a 2\nb 3");
  struct stat there {};
  ASSERT_EQ(::stat(file.c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 07777U, 0644U);
  EXPECT_EQ(list_directory(tree.root())->size(), 1U);
}

TEST(MetricsFile, ALinkAtTheTemporaryNameIsNotFollowed) {
  const ScratchTree tree;
  tree.write("precious", "text");
  fs::create_symlink(tree / "precious", tree / "osml.prom.tmp");
  ASSERT_TRUE(replace_metrics_file(tree / "osml.prom", "a 1\n"));
  EXPECT_EQ(tree.text("precious"), "text");
  EXPECT_FALSE(replace_metrics_file(tree / "nowhere" / "osml.prom", "a 1\n"));
}

TEST(MetricsFile, WhatCannotBePutInPlaceIsNotLeftBeside) {
  const ScratchTree tree;
  fs::create_directory(tree / "osml.prom");
  EXPECT_FALSE(replace_metrics_file(tree / "osml.prom", "a 1\n"));
  EXPECT_FALSE(osml::exists(tree / "osml.prom.tmp"));
}

}  // namespace
}  // namespace osml
