// Whoever floods the socket keeps neither the interval nor the end away.
#include "datagrams.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "base/unix_socket.h"

namespace osml::latency {
namespace {

using testing::HasSubstr;

constexpr std::string_view line = "osml=0.010";

std::array<Fd, 2> pair_of_sockets() {
  std::array<int, 2> fds{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds.data()), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

TEST(Datagrams, WhatHasComeIsTheLatencyOfTheInterval) {
  auto [near, far] = pair_of_sockets();
  Datagrams datagrams(std::move(near), {false, "osml", 1000});
  ASSERT_GT(::send(far.get(), line.data(), line.size(), 0), 0);
  datagrams.receive();
  EXPECT_TRUE(datagrams.take(1.0));
  EXPECT_FALSE(datagrams.take(1.0)) << "nothing came since";
}

TEST(Datagrams, AFloodIsReadInParts) {
  auto [near, far] = pair_of_sockets();
  Datagrams datagrams(std::move(near), {false, "osml", 1000});
  std::atomic<bool> enough = false;
  std::atomic<int> sent = 0;
  std::thread sender([&, &from = far] {
    while (!enough) sent += ::send(from.get(), line.data(), line.size(), MSG_DONTWAIT) > 0 ? 1 : 0;
  });
  // Comes to an end, since each call does: the sender never stops by itself.
  while (sent < 5000) datagrams.receive();
  enough = true;
  sender.join();
  EXPECT_TRUE(datagrams.take(1.0));
}

TEST(Datagrams, WhatTheKernelDroppedIsToldAndCountsInTheRate) {
  Fd near(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const Fd far(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  constexpr int little = 4096;
  ASSERT_EQ(::setsockopt(near.get(), SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(near.get(), general(address), sizeof(address)), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::getsockname(near.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  ASSERT_EQ(::connect(far.get(), general(address), sizeof(address)), 0);
  Datagrams datagrams(std::move(near), {false, "osml", 1000});
  testing::internal::CaptureStderr();
  for (int i = 0; i < 500; ++i) ASSERT_GT(::send(far.get(), line.data(), line.size(), 0), 0);
  datagrams.receive();
  ASSERT_GT(::send(far.get(), line.data(), line.size(), 0), 0);  // it brings the count
  datagrams.receive();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("datagrams, for which the socket had no room"));
  const auto taken = datagrams.take(1.0);
  ASSERT_TRUE(taken);
  const auto told = nlohmann::json::parse(*taken);
  EXPECT_LT(told["samples"].get<int>(), 501);
  EXPECT_DOUBLE_EQ(told["requests_per_s"].get<double>(), 501);
  ASSERT_GT(::send(far.get(), line.data(), line.size(), 0), 0);
  datagrams.receive();
  const auto next = nlohmann::json::parse(datagrams.take(1.0).value_or("{}"));
  EXPECT_DOUBLE_EQ(next.value("requests_per_s", 0.0), 1) << "they count once";
}

// StatsD clients send all metrics to one address; HAProxy and nginx log requests without an answer.
TEST(Datagrams, WhatHasNoLatencyBesideLatenciesIsNoMistake) {
  const auto said_of = [](const Format& format, const std::vector<std::string>& texts) {
    auto [near, far] = pair_of_sockets();
    Datagrams datagrams(std::move(near), format);
    for (const std::string& text : texts) EXPECT_GT(::send(far.get(), text.data(), text.size(), 0), 0);
    testing::internal::CaptureStderr();
    datagrams.receive();
    return testing::internal::GetCapturedStderr();
  };
  const Format log{false, "osml", 1000};
  const Format statsd{true, "osml", 1000};
  EXPECT_EQ(said_of(log, {"osml=0.010", "osml=-1", "osml=-", "GET /"}), "");
  EXPECT_EQ(said_of(statsd, {"osml:10|ms", "other:1|c"}), "");
  EXPECT_EQ(said_of(log, {"osml=-1", "osml=-"}), "") << "before the first latency, too";
  EXPECT_THAT(said_of(log, {"osml=fast"}), HasSubstr("a datagram has no latency, expected osml=NUMBER"));
  EXPECT_THAT(said_of(statsd, {"other:1|c"}), HasSubstr("expected osml:NUMBER|ms"));
}

}  // namespace
}  // namespace osml::latency
