// Whoever floods the socket keeps neither the interval nor the end away.
#include "datagrams.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <string_view>
#include <thread>

namespace osml::latency {
namespace {

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

}  // namespace
}  // namespace osml::latency
