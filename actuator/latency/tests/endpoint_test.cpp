// Telemetry lines into a file that others rotate, and that may have no room.
#include "endpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "../../tests/scratch_tree.h"

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
}

}  // namespace
}  // namespace osml::latency
