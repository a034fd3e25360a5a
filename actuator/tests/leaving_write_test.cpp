// Writes to cpusets while the kernel moves pages.
#include "cpu/leaving_write.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <thread>

#include "cpu/cgroup1.h"
#include "cpu/cgroup2.h"
#include "levers/memory_nodes.h"
#include "tree.h"

namespace osml {
namespace {

using testing_support::Tree;

// A pipe keeps whoever writes until somebody else looks, as the kernel keeps those who write until all pages have
// moved. Before the write it is empty.
class LeavingWriteTest : public testing::Test {
 protected:
  template <class Set>
  Status write_to_pipe(const std::string& file) {
    const fs::path pipe = tree_ / file;
    fs::remove(pipe);
    if (::mkfifo(pipe.c_str(), 0600) != 0) return errno_error(errno, pipe.string());
    std::thread empty([&pipe] { const Fd nothing(::open(pipe.c_str(), O_WRONLY | O_CLOEXEC)); });
    Match match;
    match.cgroup = "x";
    Status written = Set(tree_.roots(), match).write("0-1");
    empty.join();
    return written;
  }
  Tree tree_;
};

TEST_F(LeavingWriteTest, NobodyWaitsUntilAllPagesHaveMoved) {
  tree_.cgroup2("x", 10).write("cgroup/x/cpuset.mems", "\n");
  EXPECT_TRUE(write_to_pipe<Cgroup2Cpuset>("cgroup/x/cpuset.cpus"));
  EXPECT_TRUE(write_to_pipe<Cgroup2Mems>("cgroup/x/cpuset.mems"));
}

TEST_F(LeavingWriteTest, NorOnCgroup1) {
  tree_.write("cgroup/cpuset/x/tasks", "").write("cgroup/cpuset/x/cpuset.memory_migrate", "0\n");
  EXPECT_TRUE(write_to_pipe<Cgroup1Cpuset>("cgroup/cpuset/x/cpuset.cpus"));
  EXPECT_TRUE(write_to_pipe<Cgroup1Mems>("cgroup/cpuset/x/cpuset.mems"));
}

TEST_F(LeavingWriteTest, WhatIsThereIsNotWrittenAgain) {
  const Fd sealed(::memfd_create("sealed", MFD_ALLOW_SEALING));  // can be read, and refuses each write
  ASSERT_EQ(::pwrite(sealed.get(), "0-1\n", 4, 0), 4);
  ASSERT_EQ(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
  const fs::path file = "/proc/self/fd/" + std::to_string(sealed.get());
  EXPECT_TRUE(write_and_leave(file, "0,1"));
  EXPECT_FALSE(write_and_leave(file, "0"));
  EXPECT_FALSE(write_and_leave(tree_ / "none", "0"));
}

}  // namespace
}  // namespace osml
