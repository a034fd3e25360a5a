// The memory of services on NUMA nodes: which nodes there are, where memory goes, and the knobs.
#include "plan/memory_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "levers/memory_nodes.h"
#include "levers/numa.h"
#include "numa_tree.h"
#include "plan/plan.h"

namespace osml {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::add_memory;
using testing_support::add_node;
using testing_support::add_sockets;
using testing_support::mib;
using testing_support::node_path;
using testing_support::set_nodes;
using testing_support::Tree;

Match at(const std::string& path) {
  Match match;
  match.cgroup = path;
  return match;
}

class NumaTest : public testing::Test {
 protected:
  Tree tree_;
};

TEST_F(NumaTest, EachNodeHasItsOwnMemory) {
  add_sockets(tree_);
  const auto numa = read_numa(tree_.roots());
  EXPECT_THAT(numa, ElementsAre(NumaNode{{0, 1, 2, 3}, {0}}, NumaNode{{4, 5, 6, 7}, {1}}));
  EXPECT_EQ(memory_near(numa, {0, 3}), NodeSet{0});
  EXPECT_EQ(memory_near(numa, {3, 4}), (NodeSet{0, 1}));
  EXPECT_THAT(memory_near(numa, {9}), IsEmpty());
  const NodeRooms rooms = read_node_rooms(tree_.roots());
  EXPECT_EQ(rooms.at(1).total, 1000 * mib);
  EXPECT_EQ(rooms.at(1).free, 900 * mib) << "free, and pages of files that nobody used lately";
}

TEST_F(NumaTest, WhereAllCpusHaveTheSameMemoryThereIsNothingToChoose) {
  EXPECT_THAT(read_numa(tree_.roots()), IsEmpty()) << "a kernel without NUMA";
  set_nodes(tree_, "0", "0");
  add_node(tree_, 0, "0-7", "10");
  EXPECT_THAT(read_numa(tree_.roots()), IsEmpty());
  set_nodes(tree_, "0-1", "0-1");
  add_node(tree_, 0, "0-7", "10 20");
  add_node(tree_, 1, "", "20 10");
  EXPECT_THAT(read_numa(tree_.roots()), IsEmpty()) << "CXL memory beside one socket";
  set_nodes(tree_, "0-1", "0");
  add_node(tree_, 1, "4-7", "20 10");
  add_node(tree_, 0, "0-3", "10 20");
  EXPECT_THAT(read_numa(tree_.roots()), IsEmpty()) << "the memory of one socket is missing";
}

TEST_F(NumaTest, ANodeWithoutMemoryHasThatOfTheNearest) {
  set_nodes(tree_, "0-1,3-4", "0-1,4");
  add_node(tree_, 0, "0-1", "10 31 21 31");
  add_node(tree_, 1, "2-3", "31 10 31 21");
  add_node(tree_, 3, "4-5", "31 21 10 41");
  add_node(tree_, 4, "6-7", "21 31 41 10");
  EXPECT_EQ(memory_near(read_numa(tree_.roots()), {4}), NodeSet{1});
  tree_.write(node_path(3) + "/distance", "21 21 10 41\n");
  EXPECT_EQ(memory_near(read_numa(tree_.roots()), {4}), (NodeSet{0, 1})) << "both are as near";
  tree_.write(node_path(3) + "/distance", "21 21\n");
  EXPECT_EQ(memory_near(read_numa(tree_.roots()), {4}), (NodeSet{0, 1, 4})) << "nobody knows";
}

TEST_F(NumaTest, MemoryWithoutCpusBelongsToTheNearestThatHasSome) {
  set_nodes(tree_, "0-3", "0-3");
  add_node(tree_, 0, "0-3", "10 21 14 24");
  add_node(tree_, 1, "4-7", "21 10 24 14");
  add_node(tree_, 2, "", "14 24 10 26");
  add_node(tree_, 3, "", "24 14 26 10");
  EXPECT_THAT(read_numa(tree_.roots()), ElementsAre(NumaNode{{0, 1, 2, 3}, {0, 2}}, NumaNode{{4, 5, 6, 7}, {1, 3}}));
}

NodeRooms rooms_of(std::uint64_t free_0, std::uint64_t free_1, std::uint64_t free_2 = 900) {
  return {{0, {1000 * mib, free_0 * mib}}, {1, {1000 * mib, free_1 * mib}}, {2, {1000 * mib, free_2 * mib}}};
}

MemoryUse used(NodeSet now, std::uint64_t on_0, std::uint64_t on_1) {
  return {{0, 1, 2}, std::move(now), false, {{0, on_0 * mib}, {1, on_1 * mib}}, 0};
}

TEST(PlaceMemoryTest, GoesToTheNodesOfTheCpus) {
  NodeRooms rooms = rooms_of(900, 900);
  const MemoryPlace place = place_memory({1}, used({0}, 300, 0), rooms);
  EXPECT_EQ(place.nodes, NodeSet{1});
  EXPECT_EQ(place.why, "");
  EXPECT_EQ(place_memory({0, 1}, used({0}, 300, 0), rooms).nodes, (NodeSet{0, 1}));
}

TEST(PlaceMemoryTest, NeverOutsideOfWhatTheGroupAboveAllows) {
  NodeRooms rooms = rooms_of(900, 900);
  MemoryUse use = used({0}, 300, 0);
  use.allowed = {0, 2};
  EXPECT_EQ(place_memory({1, 2}, use, rooms).nodes, NodeSet{2});
  EXPECT_THAT(place_memory({1}, use, rooms).nodes, IsEmpty()) << "as found";
  EXPECT_THAT(place_memory({}, use, rooms).nodes, IsEmpty());
}

TEST(PlaceMemoryTest, WhereItDoesNotFitTheOldNodesStay) {
  NodeRooms rooms = rooms_of(100, 300);
  const MemoryPlace place = place_memory({1}, used({0}, 300, 0), rooms);
  EXPECT_EQ(place.nodes, (NodeSet{0, 1}));
  EXPECT_EQ(place.why,
            "nodes 1 near its CPUs have 300 MiB free, 300 MiB would move there, and 62 MiB must stay free; its memory "
            "may be on nodes 0-1");
  EXPECT_EQ(place_memory({1}, used({0, 1}, 300, 0), rooms).nodes, (NodeSet{0, 1})) << "and in the next interval";
  rooms = rooms_of(100, 363);
  EXPECT_EQ(place_memory({1}, used({0, 1}, 300, 0), rooms).nodes, NodeSet{1});
}

TEST(PlaceMemoryTest, WhatIsThereAlreadyNeedsNoRoom) {
  NodeRooms rooms = rooms_of(900, 163);
  EXPECT_EQ(place_memory({1}, used({0, 1}, 100, 700), rooms).nodes, NodeSet{1});
}

TEST(PlaceMemoryTest, MemoryThatNobodyPlacesCountsAsWhole) {
  NodeRooms rooms = rooms_of(900, 300);
  MemoryUse use = used({0}, 0, 0);
  use.unplaced = 300 * mib;
  EXPECT_EQ(place_memory({1}, use, rooms).nodes, (NodeSet{0, 1}));
  use.unplaced = 200 * mib;
  EXPECT_EQ(place_memory({1}, use, rooms).nodes, NodeSet{1});
  use.unplaced = MemoryUse::uncounted;
  const MemoryPlace place = place_memory({1}, use, rooms);
  EXPECT_EQ(place.nodes, (NodeSet{0, 1}));
  EXPECT_THAT(place.why, HasSubstr("an unknown amount would move there"));
}

TEST(PlaceMemoryTest, TwoServicesDoNotGetTheSameRoom) {
  NodeRooms rooms = rooms_of(900, 500);
  EXPECT_EQ(place_memory({1}, used({0}, 300, 0), rooms).nodes, NodeSet{1});
  EXPECT_EQ(place_memory({1}, used({0}, 300, 0), rooms).nodes, (NodeSet{0, 1}));
}

TEST(PlaceMemoryTest, NodesThatGetFullAreLeftBeforeTheKernelKills) {
  NodeRooms rooms = rooms_of(900, 40);
  EXPECT_EQ(place_memory({1}, used({1}, 0, 800), rooms).nodes, NodeSet{1}) << "a thirty-second is free";
  rooms = rooms_of(900, 30);
  const MemoryPlace place = place_memory({1}, used({1}, 0, 800), rooms);
  EXPECT_EQ(place.nodes, (NodeSet{0, 1, 2})) << "there is no older place";
  EXPECT_THAT(place.why, HasSubstr("nodes 1 near its CPUs have 30 MiB free, 0 MiB would move there, and 31 MiB"));
  rooms = rooms_of(900, 40);
  EXPECT_EQ(place_memory({1}, used({0, 1, 2}, 0, 800), rooms).nodes, (NodeSet{0, 1, 2})) << "no to and fro";
  rooms = rooms_of(20, 30);
  EXPECT_EQ(place_memory({1}, used({0}, 800, 0), rooms).nodes, (NodeSet{0, 1, 2})) << "old and new are full";
  rooms = rooms_of(20, 30, 0);
  MemoryUse all = used({0, 1, 2}, 800, 0);
  EXPECT_EQ(place_memory({0, 1, 2}, all, rooms).why, "") << "there is nothing else";
}

TEST(PlanMemoryTest, MemoryMovesAfterEverythingElse) {
  const std::vector<Change> changes = {{"a", Aspect::Nodes, "", "1"},
                                       {"a", Aspect::Cpus, "0-1", "4-6"},
                                       {"b", Aspect::Nodes, "1", "", "0"},
                                       {"cpufreq/policy0", Aspect::Clock, "2000", "1000"}};
  std::vector<std::string> lines;
  for (const Step& step : plan(changes, {})) lines.push_back(describe(changes[step.change], step));
  EXPECT_THAT(lines, ElementsAre("a: cpus 0-1 -> 4-6", "cpufreq/policy0: frequency_mhz 2000 -> 1000",
                                 "a: memory_nodes - -> 1", "b: memory_nodes 1 -> as found"));
}

TEST(Cgroup2MemsTest, SetsNodesAndPutsBackWhatWasFound) {
  Tree tree;
  tree.cgroup2("a", 10);
  Cgroup2Mems nodes(tree.roots(), at("a"));
  EXPECT_FALSE(nodes.probe());
  add_memory(tree, "a", 1, 1);
  ASSERT_TRUE(nodes.probe());
  const std::string found = *nodes.snapshot();
  ASSERT_TRUE(nodes.write("0-1"));
  EXPECT_EQ(tree.text("cgroup/a/cpuset.mems"), "0-1");
  EXPECT_TRUE(nodes.same(*nodes.read(), "0,1"));
  for (const char* wrong : {"", " ", "all", "1-0"}) EXPECT_FALSE(nodes.write(wrong)) << wrong;
  EXPECT_EQ(tree.text("cgroup/a/cpuset.mems"), "0-1");
  ASSERT_TRUE(nodes.restore(found));
  ASSERT_TRUE(nodes.restore(found));
  EXPECT_EQ(tree.text("cgroup/a/cpuset.mems"), "");
  fs::remove_all(tree / "cgroup/a");
  EXPECT_EQ(nodes.restore(found).error().kind, ErrorKind::Gone);
}

// Linux 6.12: no set can be emptied while tasks are in the group.
class OlderKernel : public Cgroup2Mems {
 public:
  using Cgroup2Mems::Cgroup2Mems;

 protected:
  Status put(const std::string& text) override {
    return text.empty() ? Status(errno_error(ENOSPC, "cpuset.mems")) : Cgroup2Mems::put(text);
  }
};

TEST(Cgroup2MemsTest, WhereNoSetCanBeEmptiedTheGroupGetsThoseOfItsParentByName) {
  Tree tree;
  tree.cgroup2("a", 10);
  add_memory(tree, "a", 1, 1);
  OlderKernel nodes(tree.roots(), at("a"));
  ASSERT_TRUE(nodes.write("1"));
  ASSERT_TRUE(nodes.restore(""));
  EXPECT_EQ(tree.text("cgroup/a/cpuset.mems"), "0-1");
}

class Cgroup1MemsTest : public testing::Test {
 protected:
  Cgroup1MemsTest() {
    for (const char* group : {"", "/x", "/x/child", "/x/child/below"}) {
      const std::string base = std::string("cgroup/cpuset") + group;
      tree_.write(base + "/cpuset.mems", "0-1\n").write(base + "/cpuset.memory_migrate", "0\n");
      tree_.write(base + "/cpuset.cpus", "0-7\n").write(base + "/tasks", "");
    }
    tree_.write("cgroup/cpuset/x/child/cpuset.mems", "1\n");
    tree_.write("cgroup/cpuset/x/child/below/cpuset.mems", "1\n");
    tree_.write("cgroup/cpuset/x/child/cpuset.memory_migrate", "1\n");
  }
  [[nodiscard]] std::string state() const {
    std::string text;
    for (const char* group : {"x", "x/child", "x/child/below"}) {
      const std::string base = std::string("cgroup/cpuset/") + group;
      text += tree_.text(base + "/cpuset.mems") + "/" + tree_.text(base + "/cpuset.memory_migrate") + " ";
    }
    return text;
  }
  Tree tree_;
};

TEST_F(Cgroup1MemsTest, PagesOfAllGroupsMoveAndTheSwitchIsPutBack) {
  Cgroup1Mems nodes(tree_.roots(), at("x"));
  ASSERT_TRUE(nodes.probe());
  const std::string found = *nodes.snapshot();
  EXPECT_EQ(found, ".=0-1\nchild=1\nchild/below=1\nmemory_migrate\n.=0\nchild=1\nchild/below=0\n");
  ASSERT_TRUE(nodes.write("0"));
  EXPECT_EQ(state(), "0/1 0/1 0/1 ");
  EXPECT_TRUE(nodes.same(*nodes.read(), "0"));
  EXPECT_FALSE(nodes.write(""));
  fs::remove_all(tree_ / "cgroup/cpuset/x/child/below");
  ASSERT_TRUE(nodes.restore(found));
  ASSERT_TRUE(nodes.restore(found));
  EXPECT_EQ(state().substr(0, 12), "0-1/0 1/1 <c");
  EXPECT_FALSE(nodes.restore(".=0-1\n")) << "of the journal's CPUs";
  EXPECT_FALSE(nodes.restore("../y=0\nmemory_migrate\n.=0\n"));
  EXPECT_FALSE(nodes.restore(".=0\nmemory_migrate\n../y=0\n"));
  fs::remove_all(tree_ / "cgroup/cpuset/x");
  EXPECT_TRUE(Cgroup1Mems(tree_.roots(), at("x")).restore(found));
}

// What is counted of the group.
MemoryUse use_of(const Tree& tree, const std::string& group, std::string_view backend) {
  MemoryUse use = *read_memory_use(tree.roots(), at(group), backend);
  count_memory(tree.roots(), at(group), backend, use);
  return use;
}

std::uint64_t bytes_of(std::uint64_t pages) { return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)); }

TEST_F(Cgroup1MemsTest, TheUseIsInPages) {
  tree_.write("cgroup/memory/x/tasks", "").write("cgroup/memory/x/memory.usage_in_bytes", "5000\n");
  const auto use = [this] { return use_of(tree_, "x", "cgroup1"); };
  EXPECT_EQ(use().unplaced, 5000U);
  tree_.write(
      "cgroup/memory/x/memory.numa_stat",
      "total=2 N0=1 N1=1\nfile=1 N0=1 N1=0\nhierarchical_total=30 N0=10 N1=20\nhierarchical_file=1 N0=1 N1=0\n");
  EXPECT_EQ(use().unplaced, 0U);
  EXPECT_EQ(use().placed, (std::map<unsigned, std::uint64_t>{{0, bytes_of(10)}, {1, bytes_of(20)}}));
  EXPECT_EQ(use().allowed, (NodeSet{0, 1}));
  EXPECT_EQ(use().now, (NodeSet{0, 1}));
  EXPECT_FALSE(use().inherits);
  EXPECT_FALSE(read_memory_use(tree_.roots(), at("none"), "cgroup1"));
}

TEST_F(Cgroup1MemsTest, WithoutTheControllerOfMemoryProcessesAreAsked) {
  EXPECT_EQ(use_of(tree_, "x", "cgroup1").unplaced, 0U) << "there is none";
  tree_.write("cgroup/cpuset/x/cgroup.procs", "10\n").write("cgroup/cpuset/x/child/cgroup.procs", "20\n");
  tree_.write("proc/10/statm", "1000 700 30 1 0 90 0\n").write("proc/20/statm", "90 50 30 1 0 90 0\n");
  EXPECT_EQ(use_of(tree_, "x", "cgroup1").unplaced, bytes_of(750));
}

TEST(MemoryUseTest, IsWhatAGroupWorksWithOnEachNode) {
  Tree tree;
  tree.cgroup2("a", 10);
  add_memory(tree, "a", 300, 100);
  const auto use = [&tree] { return use_of(tree, "a", "cgroup2"); };
  EXPECT_TRUE(use().inherits);
  EXPECT_EQ(use().now, (NodeSet{0, 1}));
  EXPECT_EQ(use().placed, (std::map<unsigned, std::uint64_t>{{0, 300 * mib}, {1, 100 * mib}}));
  fs::remove(tree / "cgroup/a/memory.numa_stat");
  EXPECT_EQ(use().unplaced, 430 * mib) << "Linux before 5.10";
  fs::remove(tree / "cgroup/a/memory.current");
  EXPECT_EQ(use().unplaced, MemoryUse::uncounted) << "the memory controller is off, and nobody says more";
  tree.write("proc/10/statm", "1000 700 30 1 0 90 0\n");
  EXPECT_EQ(use().unplaced, bytes_of(700));
  tree.write("cgroup/a/cgroup.procs", "").write("cgroup/a/cgroup.threads", "10\n");
  EXPECT_EQ(use().unplaced, MemoryUse::uncounted) << "a threaded group";
  tree.write("cgroup/a/cpuset.mems", "1\n").write("cgroup/cpuset.mems.effective", "garbage\n");
  EXPECT_THAT(read_memory_use(tree.roots(), at("a"), "cgroup2").error().message,
              HasSubstr("cpuset.mems.effective contains 'garbage', expected NUMA nodes such as 0-1"));
}

TEST(MemoryUseTest, APathMayEndWithASlash) {
  Tree tree;
  tree.cgroup2("a", 10);
  add_memory(tree, "a", 300, 100);
  tree.write("cgroup/a/cpuset.mems", "1\n").write("cgroup/a/cpuset.mems.effective", "1\n");
  for (const char* path : {"a", "a/", "/a//", "a/."}) {
    EXPECT_EQ(read_memory_use(tree.roots(), at(path), "cgroup2")->allowed, (NodeSet{0, 1})) << path;
  }
}

}  // namespace
}  // namespace osml
