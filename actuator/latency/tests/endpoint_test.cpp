// Telemetry lines into a file that others rotate, and that may have no room.
#include "endpoint.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include "../../tests/scratch_tree.h"
#include "base/unix_socket.h"

namespace osml::latency {
namespace {

using testing_support::ScratchTree;

TEST(OutletTest, AFileThatWasMovedAwayIsMadeAnew) {
  const ScratchTree tree;
  auto outlet = Outlet::open("file:" + (tree / "t.jsonl").string());
  ASSERT_TRUE(outlet) << outlet.error().message;
  ASSERT_TRUE(outlet->send("1"));
  fs::rename(tree / "t.jsonl", tree / "t.jsonl.1");
  ASSERT_TRUE(outlet->send("2"));
  tree.append("t.jsonl", "3\n");
  ASSERT_TRUE(outlet->send("4"));
  EXPECT_EQ(tree.text("t.jsonl.1"), "1");
  EXPECT_EQ(tree.text("t.jsonl"), "2\n3\n4");
}

TEST(OutletTest, HalfALineIsNotTakenForAWholeOne) {
  const ScratchTree tree;
  auto outlet = Outlet::open("file:" + (tree / "t.jsonl").string());
  ASSERT_TRUE(outlet) << outlet.error().message;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit few{10, before.rlim_max};
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &few), 0);
  const Status sent = outlet->send(std::string(100, 'x'));
  (void)::setrlimit(RLIMIT_FSIZE, &before);
  (void)std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, ErrorKind::Gone) << "there may be room later";
  EXPECT_THAT(sent.error().message, testing::HasSubstr("make room on the disk"));
  ASSERT_TRUE(outlet->send("2"));
  EXPECT_EQ(tree.text("t.jsonl"), "2");
}

TEST(OutletTest, AFullDiskIsTriedAgain) {
  auto outlet = Outlet::open("file:/dev/full");
  ASSERT_TRUE(outlet) << outlet.error().message;
  EXPECT_EQ(outlet->send("1").error().kind, ErrorKind::Gone);
}

TEST(OutletTest, ALineBeginsBehindHalfALineThatACrashLeft) {
  const ScratchTree tree;
  tree.write("t.jsonl", "1\n{\"p9");
  auto outlet = Outlet::open("file:" + (tree / "t.jsonl").string());
  ASSERT_TRUE(outlet) << outlet.error().message;
  ASSERT_TRUE(outlet->send("2"));
  EXPECT_EQ(tree.text("t.jsonl"), "1\n{\"p9\n2");
}

TEST(OutletTest, ASocketThatTakesNothingSaysWhatToDo) {
  const ScratchTree tree;
  const fs::path path = tree / "web.sock";
  auto outlet = Outlet::open("unix:" + path.string());
  ASSERT_TRUE(outlet) << outlet.error().message;
  EXPECT_THAT(outlet->send("1").error().message, testing::HasSubstr("; start the agent, or check --to"));
  const auto agent = bind_closed(path, "the agent's");
  ASSERT_TRUE(agent) << agent.error().message;
  Status sent = done();
  for (int i = 0; i < 100'000 && sent; ++i) sent = outlet->send("1");
  EXPECT_THAT(sent.error().message, testing::HasSubstr("set --interval-s to its interval_s"));
  EXPECT_EQ(sent.error().kind, ErrorKind::Gone);
  fs::permissions(tree.root(), fs::perms(0755));
  const uid_t user = ::geteuid();
  constexpr uid_t nobody = 65534;
  fs::permissions(path, user == 0 ? fs::perms(0600) : fs::perms::none);
  ASSERT_EQ(user == 0 ? ::seteuid(nobody) : 0, 0);
  sent = outlet->send("1");
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_THAT(sent.error().message, testing::HasSubstr("set Group=osml for the agent, or latency.datagram_mode"));
}

}  // namespace
}  // namespace osml::latency
