// Timer, clock, log files: the parts of the daemon that can be wrong on their own.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "base/unix_socket.h"
#include "daemon/service_manager.h"
#include "daemon/session.h"
#include "daemon/wakeups.h"
#include "report/json_lines.h"
#include "report/log.h"
#include "report/self_usage.h"
#include "scratch_tree.h"

namespace osml {
namespace {

using testing_support::ScratchTree;

TEST(Phase, SpreadsNodesAndNeverChanges) {
  std::set<int> tenths;
  for (int i = 0; i < 200; ++i) {
    const double phase = phase_of("node-" + std::to_string(i));
    EXPECT_GE(phase, 0);
    EXPECT_LT(phase, 1);
    tenths.insert(static_cast<int>(phase * 10));
  }
  EXPECT_EQ(tenths.size(), 10U);
  EXPECT_EQ(phase_of("demo"), phase_of("demo"));
}

TEST(NodeClockTest, RunsFasterThanTheWall) {
  const double wall = monotonic_s();
  const NodeClock clock(1000);
  while (monotonic_s() - wall < 0.005) {
  }
  EXPECT_GE(clock.now_s(), 4.0);
}

TEST(WakeupsTest, TimerKeepsItsGridAndCountsWhatWasMissed) {
  auto wakeups = Wakeups::open();
  ASSERT_TRUE(wakeups);
  const double start = monotonic_s();
  ASSERT_TRUE(wakeups->start_timer(0, 0.02));
  const auto first = wakeups->wait();
  ASSERT_TRUE(first);
  while (monotonic_s() - start < 0.07) {
  }
  const auto late = wakeups->wait();
  ASSERT_TRUE(late);
  EXPECT_EQ(late->kind, Wakeup::Kind::Tick);
  EXPECT_GE(first->ticks + late->ticks, 4U);
}

TEST(WakeupsTest, SignalsAreWakeUps) {
  auto wakeups = Wakeups::open();
  ASSERT_TRUE(wakeups);
  ::raise(SIGHUP);
  EXPECT_EQ(wakeups->wait()->kind, Wakeup::Kind::Reload);
  ::raise(SIGHUP);
  ::raise(SIGTERM);
  EXPECT_EQ(wakeups->wait()->kind, Wakeup::Kind::Stop);
}

TEST(JsonLinesTest, RotatesBySizeAndLosesNothingNew) {
  const ScratchTree tree;
  JsonLines lines(tree / "a.jsonl", 100);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(lines.append(std::string(39, static_cast<char>('0' + i))));
  EXPECT_EQ(*read_text(tree / "a.jsonl"), std::string(39, '4'));
  EXPECT_EQ(split_lines(*read_text(tree / "a.jsonl.1")).size(), 2U);
}

TEST(JsonLinesTest, HalfALineIsTakenBack) {
  const ScratchTree tree;
  JsonLines lines(tree / "a.jsonl", 0);
  ASSERT_TRUE(lines.append("whole"));
  // As a disk that is full after ten bytes.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{10, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const Status cut = lines.append("does not fit");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().kind, ErrorKind::Capacity);
  ASSERT_TRUE(lines.append("next"));
  EXPECT_EQ(tree.text("a.jsonl"), "whole\nnext");
}

TEST(JsonLinesTest, HalfALineOfAPowerCutEndsBeforeTheNext) {
  const ScratchTree tree;
  tree.write("a.jsonl", "whole\nhal");
  JsonLines lines(tree / "a.jsonl", 0);
  ASSERT_TRUE(lines.append("next"));
  EXPECT_EQ(*read_text(tree / "a.jsonl"), "whole\nhal\nnext");
}

TEST(JsonLinesTest, AFileThatSomebodyDeletedOrMovedBeginsAnew) {
  const ScratchTree tree;
  JsonLines lines(tree / "a.jsonl", 10);
  ASSERT_TRUE(lines.append("first"));
  fs::remove(tree / "a.jsonl");
  ASSERT_TRUE(lines.append("second"));
  EXPECT_EQ(tree.text("a.jsonl"), "second");
  fs::rename(tree / "a.jsonl", tree / "taken.jsonl");
  ASSERT_TRUE(lines.append("third"));
  EXPECT_EQ(tree.text("a.jsonl"), "third");
  EXPECT_EQ(tree.text("taken.jsonl"), "second");
}

// What was not written does not stand for what comes after it.
TEST(AuditTest, ARefusalThatWasNotWrittenIsWrittenTheNextTime) {
  const ScratchTree tree;
  Audit audit(tree / "state");
  Outcome refused;
  refused.status = OutcomeStatus::Refused;
  EXPECT_FALSE(audit.record(1, {}, refused, {}, {}));
  fs::create_directory(tree / "state");
  EXPECT_TRUE(audit.record(2, {}, refused, {}, {}));
  EXPECT_TRUE(fs::exists(tree / "state/audit.jsonl"));
}

TEST(AuditTest, ARefusalBehindALineThatWasLostIsWritten) {
  const ScratchTree tree;
  Audit audit(tree / "state");
  Outcome refused;
  refused.status = OutcomeStatus::Refused;
  Outcome applied;
  applied.status = OutcomeStatus::Applied;
  fs::create_directory(tree / "state");
  EXPECT_TRUE(audit.record(1, {}, refused, {}, {}));
  fs::remove_all(tree / "state");
  EXPECT_FALSE(audit.record(2, {}, applied, {}, {}));
  fs::create_directory(tree / "state");
  EXPECT_TRUE(audit.record(3, {}, refused, {}, {}));
  EXPECT_TRUE(fs::exists(tree / "state/audit.jsonl"));
}

// A label in Latin-1, as an exporter may have it.
TEST(LogTest, AJsonLineIsJsonWhateverBytesTheMessageHas) {
  const auto before = spdlog::default_logger();
  LogConfig config;
  config.format = "json";
  testing::internal::CaptureStderr();
  configure_log(config);
  spdlog::warn("route=\"/caf\xe9\"\n\t\\ \x01 \xc3\xa9");
  spdlog::set_default_logger(before);
  const std::string text = testing::internal::GetCapturedStderr();
  const auto line = nlohmann::json::parse(text, nullptr, false);
  ASSERT_TRUE(line.is_object()) << text;
  EXPECT_EQ(line.at("level"), "warning");
  EXPECT_EQ(line.at("message"), "route=\"/caf\xef\xbf\xbd\"\n\t\\ \x01 \xc3\xa9");
}

TEST(JsonLinesTest, DirectoryThatIsNotThereIsAnError) {
  JsonLines lines("/nonexistent/a.jsonl", 0);
  EXPECT_FALSE(lines.append("{}"));
}

TEST(SelfMeterTest, MeasuresThisProcess) {
  SelfMeter meter;
  const double start = monotonic_s();
  while (monotonic_s() - start < 0.05) {
  }
  const SelfUsage usage = meter.read();
  ASSERT_TRUE(usage.cpu_pct);
  EXPECT_GT(*usage.cpu_pct, 1);
  ASSERT_TRUE(usage.rss_mib);
  EXPECT_GT(*usage.rss_mib, 1);
}

TEST(SameMachine, AnotherListOfServicesIsNoReasonToRestoreAll) {
  Config a;
  a.services.resize(1);
  a.services[0].spec.name = "moses";
  Config b = a;
  b.services[0].spec.target_ms = 5;
  b.interval_s = 2;
  EXPECT_TRUE(same_services(a, b));
  b.services[0].match.pids = {1};
  EXPECT_FALSE(same_services(a, b));
  EXPECT_TRUE(same_machine(a, b));
  b = a;
  b.roots.cgroup = "/x";
  EXPECT_FALSE(same_machine(a, b));
}

TEST(ServiceManagerTest, GetsOneDatagramByTheNameInItsVariable) {
  const ScratchTree tree;
  const std::string path = (tree / "notify").string();
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  tell_service_manager("READY=1");
  EXPECT_EQ(watchdog_interval_s(), 15.0);
  ::unsetenv("NOTIFY_SOCKET");
  ::unsetenv("WATCHDOG_USEC");
  tell_service_manager("STOPPING=1");
  std::array<char, 64> text{};
  const auto got = ::recv(socket.get(), text.data(), text.size(), 0);
  EXPECT_EQ(std::string(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0), "READY=1");
  EXPECT_LT(::recv(socket.get(), text.data(), text.size(), 0), 0);
  EXPECT_EQ(watchdog_interval_s(), 0.0);
}

TEST(WakeupsTest, AWatchdogThatIsWantedWakesUp) {
  auto wakeups = Wakeups::open();
  ASSERT_TRUE(wakeups);
  ASSERT_TRUE(wakeups->start_watchdog(0.01));
  EXPECT_EQ(wakeups->wait()->kind, Wakeup::Kind::Watchdog);
}

TEST(WakeupsTest, ADatagramWakesUpUntilItIsRead) {
  const ScratchTree tree;
  const fs::path path = tree / "s.sock";
  TelemetrySockets sockets;
  auto wakeups = Wakeups::open();
  ASSERT_TRUE(wakeups);
  ASSERT_TRUE(wakeups->watch_courier(sockets.fd()));
  const auto socket = sockets.get(path, 0600);  // after the watch, as that of a pod
  ASSERT_TRUE(socket) << socket.error().message;
  const Fd sender(::socket(AF_UNIX, SOCK_DGRAM, 0));
  const sockaddr_un address = unix_address(path);
  ASSERT_EQ(::sendto(sender.get(), "{}", 2, 0, general(address), sizeof(address)), 2);
  EXPECT_EQ(wakeups->wait()->kind, Wakeup::Kind::Courier);
  sockets.receive();
  ASSERT_TRUE(wakeups->start_timer(0, 1));
  EXPECT_EQ(wakeups->wait()->kind, Wakeup::Kind::Tick);
  EXPECT_EQ((*socket)->take().lines.size(), 1U);
}

// As where a silent server makes every turn longer than its interval.
TEST(WakeupsTest, ATurnThatIsAlwaysDueKeepsNobodyAway) {
  auto wakeups = Wakeups::open();
  ASSERT_TRUE(wakeups);
  const Fd courier(::eventfd(1, EFD_CLOEXEC));
  ASSERT_TRUE(wakeups->watch_courier(courier.get()));
  ASSERT_TRUE(wakeups->start_timer(0, 1e-4));
  ASSERT_TRUE(wakeups->start_polls(1e-4));
  ASSERT_TRUE(wakeups->start_watchdog(1e-4));
  std::map<Wakeup::Kind, int> served;
  for (int i = 0; i < 100; ++i) {
    const double start = monotonic_s();
    while (monotonic_s() - start < 2e-4) {
    }
    const auto wakeup = wakeups->wait();
    ASSERT_TRUE(wakeup);
    ++served[wakeup->kind];
  }
  for (const Wakeup::Kind kind :
       {Wakeup::Kind::Tick, Wakeup::Kind::Watchdog, Wakeup::Kind::Poll, Wakeup::Kind::Courier}) {
    EXPECT_GE(served[kind], 10) << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace osml
