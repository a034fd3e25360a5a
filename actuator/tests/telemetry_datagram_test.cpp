// Latencies by Unix datagram: what services send, what others send, and what lies at the path already.
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "scratch_tree.h"
#include "telemetry/latency_sources.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::ScratchTree;

sockaddr_un address_of(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.native().copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

// A service's side: 0, or the errno.
class Sender {
 public:
  explicit Sender(const fs::path& path) : address_(address_of(path)), fd_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {}
  int send(const std::string& text) const {
    const auto* to = reinterpret_cast<const sockaddr*>(&address_);
    const ssize_t sent = ::sendto(fd_.get(), text.data(), text.size(), MSG_DONTWAIT, to, sizeof(address_));
    return sent < 0 ? errno : 0;
  }
  int connect() const {
    return ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof(address_)) == 0 ? 0 : errno;
  }
  int send_connected(const std::string& text) const {
    return ::send(fd_.get(), text.data(), text.size(), MSG_DONTWAIT) < 0 ? errno : 0;
  }

 private:
  sockaddr_un address_;
  Fd fd_;
};

bool is_readable(int fd) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, 0) == 1;
}

class DatagramTest : public testing::Test {
 protected:
  DatagramTest() : socket_(sockets_.get(path(), 0660)) {
    if (socket_) latency_.emplace(&sockets_, path(), 0660, 3.0, 1.0);
  }
  fs::path path() const { return tree_ / "moses.sock"; }
  Result<Latency> next(double length_s = 1) {
    time_s_ += length_s;
    return latency_->read({++turn_, time_s_, length_s});
  }

  ScratchTree tree_;
  TelemetrySockets sockets_;
  Result<std::shared_ptr<TelemetrySocket>> socket_;
  std::optional<DatagramLatency> latency_;
  std::uint64_t turn_ = 0;
  double time_s_ = 0;
};

TEST_F(DatagramTest, WhatCameInOneIntervalIsOneReading) {
  EXPECT_THAT(next().error().message, HasSubstr("no datagram has arrived yet"));
  const Sender service(path());
  EXPECT_EQ(service.send(R"({"mean_ms": 1, "p99_ms": 9, "samples": 300})"), 0);
  EXPECT_EQ(service.send("{\"mean_ms\": 5, \"p99_ms\": 7, \"samples\": 100}\n"), 0);
  const auto latency = next();
  ASSERT_TRUE(latency) << latency.error().message;
  EXPECT_EQ(latency->mean_ms, 2.0);
  EXPECT_EQ(latency->p99_ms, 9.0);
  EXPECT_EQ(latency->samples, 400U);
  EXPECT_EQ(latency->age_s, 0.0);
}

TEST_F(DatagramTest, TheNewestStandsUntilItIsTooOld) {
  EXPECT_EQ(Sender(path()).send(R"({"p99_ms": 4})"), 0);
  ASSERT_TRUE(next());
  const auto older = next(2);
  ASSERT_TRUE(older);
  EXPECT_EQ(older->p99_ms, 4.0);
  EXPECT_EQ(older->age_s, 2.0);
  EXPECT_THAT(next(1.5).error().message, HasSubstr("no datagram arrived for 3.5 s, expected at most 3 s"));
}

TEST_F(DatagramTest, WhatCameWhileTheServiceWasAwayIsHistory) {
  EXPECT_EQ(Sender(path()).send(R"({"p99_ms": 4})"), 0);
  latency_->forget({++turn_, ++time_s_, 1});
  EXPECT_THAT(next().error().message, HasSubstr("no datagram has arrived yet"));
}

TEST_F(DatagramTest, GarbageIsIgnoredAndCounted) {
  const Sender service(path());
  EXPECT_EQ(service.send("hello"), 0);
  EXPECT_EQ(service.send(""), 0);
  std::string too_long(TelemetrySocket::longest_datagram + 1, ' ');
  EXPECT_EQ(service.send(too_long.append("{}")), 0);
  EXPECT_EQ(service.send(std::string(TelemetrySocket::longest_datagram, '[')), 0);
  EXPECT_THAT(next().error().message, HasSubstr("no JSON object of at most 8192 bytes"));
  EXPECT_EQ((*socket_)->received(), 4U);
  EXPECT_EQ((*socket_)->ignored(), 4U);
  EXPECT_EQ(service.send("\xff\xfe"), 0);
  EXPECT_EQ(service.send(R"({"p99_ms": 4})"), 0);
  EXPECT_EQ(next()->p99_ms, 4.0) << "garbage beside it does not cost a good one";
  EXPECT_EQ((*socket_)->ignored(), 5U);
}

TEST_F(DatagramTest, GarbageIsToldOnce) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  const Sender service(path());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(service.send("hello"), 0);
    EXPECT_FALSE(next());
    EXPECT_FALSE(next()) << "a quiet interval";
  }
  spdlog::set_default_logger(before);
  const std::string told = log.str();
  EXPECT_THAT(told, HasSubstr("1 datagrams ignored"));
  EXPECT_EQ(told.find("ignored"), told.rfind("ignored")) << told;
}

TEST_F(DatagramTest, AFloodDoesNotHoldTheAgentUp) {
  const Sender flooding(path());
  int refused = 0;
  for (int i = 0; i < 5000 && refused == 0; ++i) refused = flooding.send(R"({"p99_ms": 1})");
  EXPECT_EQ(refused, EAGAIN) << "the kernel's queue is bounded, the sender learns it";
  ASSERT_TRUE(next());
  EXPECT_LE((*socket_)->received(), TelemetrySocket::most_datagrams);
  EXPECT_GT((*socket_)->received(), 1U);
  // Also where each datagram wakes the agent.
  const std::uint64_t before = (*socket_)->received();
  for (std::size_t i = 0; i < 2 * TelemetrySocket::most_read; ++i) {
    (void)flooding.send(R"({"p99_ms": 1})");
    sockets_.receive();
  }
  EXPECT_LE((*socket_)->received() - before, TelemetrySocket::most_read);
  EXPECT_GT((*socket_)->received() - before, TelemetrySocket::most_datagrams);
  EXPECT_FALSE(is_readable(sockets_.fd())) << "the flood wakes nobody any more";
  ASSERT_TRUE(next());
  EXPECT_EQ(flooding.send(R"({"p99_ms": 1})"), 0);
  EXPECT_TRUE(is_readable(sockets_.fd()));
}

// With an interval of 30 s and sixteen processes that send each second.
TEST_F(DatagramTest, LinesOfALongIntervalAreReadAsTheyCome) {
  const Sender service(path());
  for (int i = 1; i <= 500; ++i) {
    ASSERT_EQ(service.send("{\"samples\": 1, \"p99_ms\": " + std::to_string(i) + "}"), 0) << i;
    ASSERT_TRUE(is_readable(sockets_.fd()));
    sockets_.receive();
    ASSERT_FALSE(is_readable(sockets_.fd()));
  }
  const auto all = next();
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->samples, 500U);
  EXPECT_EQ(all->p99_ms, 500.0);
}

TEST_F(DatagramTest, OfTooManyLinesTheNewestCount) {
  const Sender service(path());
  for (int i = 1; i <= 2000; ++i) {
    ASSERT_EQ(service.send("{\"samples\": 1, \"p99_ms\": " + std::to_string(i) + "}"), 0) << i;
    sockets_.receive();
  }
  const auto newest = next();
  ASSERT_TRUE(newest) << newest.error().message;
  EXPECT_EQ(newest->samples, TelemetrySocket::most_datagrams);
  EXPECT_EQ(newest->p99_ms, 2000.0);
}

TEST_F(DatagramTest, AgeIsNodeTimeSinceTheNewestLineCame) {
  DatagramLatency fast(&sockets_, path(), 0660, 3.0, 100.0);
  ASSERT_EQ(Sender(path()).send(R"({"p99_ms": 4})"), 0);
  sockets_.receive();
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  EXPECT_THAT(fast.read({1, 100, 1}).error().message, HasSubstr("s, expected at most 3 s"));
}

TEST_F(DatagramTest, OnlyWhoMayWriteMaySend) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  ASSERT_EQ(::chmod(tree_.root().c_str(), 0755), 0);
  const auto error_as_nobody = [this] {
    const pid_t child = ::fork();
    if (child == 0) {
      constexpr uid_t nobody = 65534;
      if (::setgroups(0, nullptr) != 0 || ::setgid(nobody) != 0 || ::setuid(nobody) != 0) ::_exit(255);
      ::_exit(Sender(path()).send("{}"));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(error_as_nobody(), EACCES);
  ASSERT_TRUE(sockets_.get(path(), 0666)) << "a reload with another mode";
  EXPECT_EQ(error_as_nobody(), 0);
}

TEST_F(DatagramTest, ASocketStaysWhileSomebodyHoldsItAndGoesAfterwards) {
  const Sender service(path());
  ASSERT_EQ(service.connect(), 0);
  latency_.reset();
  auto same = sockets_.get(path(), 0660);  // the next session
  socket_ = Error{};
  sockets_.drop_unused();
  EXPECT_EQ(service.send_connected("{}"), 0) << "who has connected need not do so again";
  EXPECT_EQ((*same)->take().lines.size(), 1U);
  same = Error{};
  sockets_.drop_unused();
  EXPECT_FALSE(osml::exists(path()));
  EXPECT_EQ(sockets_.find(path()), nullptr);
}

TEST_F(DatagramTest, ASocketWhoseFileWasRemovedIsMadeAnew) {
  fs::remove(path());
  const auto again = sockets_.get(path().parent_path() / "." / path().filename(), 0660);  // at a reload
  ASSERT_TRUE(again) << again.error().message;
  const Sender service(path());
  EXPECT_EQ(service.send("{}"), 0);
  EXPECT_EQ((*again)->take().lines.size(), 1U);
  EXPECT_EQ(sockets_.find(path()), again->get());
}

TEST_F(DatagramTest, ASocketWhoseFileWasRemovedIsMadeAnewAtTheNextReading) {
  fs::remove(path());
  EXPECT_THAT(next().error().message, HasSubstr("no datagram has arrived yet"));
  EXPECT_EQ(Sender(path()).send("{\"p99_ms\": 4}"), 0);
  EXPECT_EQ(next()->p99_ms, 4.0);
}

TEST(DatagramLatencyTest, ADirectoryThatComesLaterIsSeen) {
  for (const bool dry_run : {false, true}) {
    const ScratchTree tree;
    TelemetrySockets sockets(!dry_run);
    DatagramLatency latency(&sockets, tree / "later/s.sock", 0660, 3.0, 1.0);
    EXPECT_THAT(latency.read({1, 1, 1}).error().message, HasSubstr("does not exist"));
    fs::create_directory(tree / "later");
    EXPECT_THAT(latency.read({2, 2, 1}).error().message, HasSubstr("no datagram has arrived yet")) << dry_run;
    EXPECT_EQ(Sender(tree / "later/s.sock").send("{\"p99_ms\": 4}"), 0);
    const auto read = latency.read({3, 3, 1});
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->p99_ms, 4.0);
  }
}

// A dry run beside the agent, which is started anew: its socket must be free.
TEST(DatagramLatencyTest, ADryRunLeavesASocketThatWasAnothersAlone) {
  const ScratchTree tree;
  const fs::path path = tree / "s.sock";
  auto of_agent = TelemetrySocket::open(path, 0660);
  ASSERT_TRUE(of_agent) << of_agent.error().message;
  TelemetrySockets sockets(false);
  DatagramLatency latency(&sockets, path, 0660, 3.0, 1.0);
  of_agent = Error{};
  for (const std::uint64_t turn : {1U, 2U}) {
    const auto read = latency.read({turn, static_cast<double>(turn), 1});
    EXPECT_EQ(read.error().kind, ErrorKind::Busy);
    EXPECT_THAT(read.error().message, HasSubstr("another process listens there"));
    EXPECT_THAT(read.error().message, HasSubstr("a dry run leaves it the socket, so this latency is missing"));
    EXPECT_THAT(read.error().message, Not(HasSubstr("stop that process"))) << "it is the agent in production";
    EXPECT_FALSE(osml::exists(path));
  }
}

// The service manager removes the agent's directory with its socket when the agent stops, also the dry run's there.
TEST(DatagramLatencyTest, ADryRunDoesNotMakeASocketAnew) {
  const ScratchTree tree;
  const fs::path path = tree / "s.sock";
  TelemetrySockets sockets(false);
  DatagramLatency latency(&sockets, path, 0660, 3.0, 1.0);
  ASSERT_EQ(Sender(path).send("{\"p99_ms\": 4}"), 0);
  EXPECT_EQ(latency.read({1, 1, 1})->p99_ms, 4.0);
  fs::remove(path);
  EXPECT_THAT(latency.read({2, 2, 1}).error().message, HasSubstr("its file was removed"));
  EXPECT_FALSE(osml::exists(path));
}

TEST(TelemetrySocket, AStaleFileIsReplacedALiveOneIsNot) {
  const ScratchTree tree;
  const fs::path path = tree / "s.sock";
  {
    const Fd crashed(::socket(AF_UNIX, SOCK_DGRAM, 0));
    const sockaddr_un address = address_of(path);
    ASSERT_EQ(::bind(crashed.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const auto live = TelemetrySocket::open(path, 0660);
    ASSERT_FALSE(live);
    EXPECT_EQ(live.error().kind, ErrorKind::Busy);
    EXPECT_THAT(live.error().message, HasSubstr("another process listens there"));
  }
  ASSERT_TRUE(osml::exists(path));
  const auto opened = TelemetrySocket::open(path, 0660);
  ASSERT_TRUE(opened) << opened.error().message;
  struct stat there {};
  ASSERT_EQ(::stat(path.c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 07777U, 0660U);
}

TEST(TelemetrySocket, WhatIsNoSocketIsLeftAlone) {
  const ScratchTree tree;
  tree.write("notes.txt", "precious");
  const auto over_file = TelemetrySocket::open(tree / "notes.txt", 0660);
  ASSERT_FALSE(over_file);
  EXPECT_EQ(over_file.error().kind, ErrorKind::Input);
  EXPECT_EQ(tree.text("notes.txt"), "precious");
  fs::create_symlink(tree / "notes.txt", tree / "link.sock");
  EXPECT_FALSE(TelemetrySocket::open(tree / "link.sock", 0660));
  EXPECT_THAT(TelemetrySocket::open(tree / "none" / "s.sock", 0660).error().message, HasSubstr("does not exist"));
  fs::create_directory(tree / "open");
  ASSERT_EQ(::chmod((tree / "open").c_str(), 01777), 0);
  EXPECT_THAT(TelemetrySocket::open(tree / "open" / "s.sock", 0660).error().message,
              HasSubstr("writable by all users"));
}

TEST(TelemetrySocket, AnothersSocketIsNotRemovedAtTheEnd) {
  const ScratchTree tree;
  const fs::path path = tree / "s.sock";
  auto first = TelemetrySocket::open(path, 0660);
  ASSERT_TRUE(first);
  fs::remove(path);
  const auto second = TelemetrySocket::open(path, 0660);
  ASSERT_TRUE(second);
  first = Error{};
  EXPECT_TRUE(osml::exists(path));
}

}  // namespace
}  // namespace osml
