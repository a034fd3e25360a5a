#include "apply/journal.h"

#include <gtest/gtest.h>

#include "apply/restore.h"
#include "tree.h"

namespace osml {
namespace {

using testing_support::Tree;

Match cgroup(const std::string& path) {
  Match match;
  match.cgroup = path;
  return match;
}

TEST(JournalTest, ComesBackAsItWasWritten) {
  const Tree tree;
  Match pids;
  pids.pids = {12, 13};
  Match file;
  file.pid_file = "/run/x.pid";
  const Journal journal{
      {{{"lc", Aspect::Cpus, "cgroup2", cgroup("lc/x")}, "0-3"}, {{"be", Aspect::Ways, "resctrl", pids}, "L3:0=ff\n"}},
      {{{"be", Aspect::Cpus, "affinity", file}, "12 99 0-3\n"}}};
  ASSERT_TRUE(save_journal(tree / "journal.json", journal));
  const auto read = load_journal(tree / "journal.json");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->originals.size(), 2U);
  EXPECT_EQ(read->originals[0].name.match.cgroup, "lc/x");
  EXPECT_EQ(read->originals[1].name.match.pids, (std::vector<int>{12, 13}));
  EXPECT_EQ(read->originals[1].snapshot, "L3:0=ff\n");
  EXPECT_EQ(read->pending[0].name.match.pid_file, "/run/x.pid");
  EXPECT_TRUE(read->knows("lc", Aspect::Cpus));
  EXPECT_FALSE(read->knows("lc", Aspect::Ways));
}

TEST(JournalTest, NoFileIsAnEmptyJournalAndABrokenOneIsAnError) {
  Tree tree;
  EXPECT_TRUE(load_journal(tree / "none.json")->originals.empty());
  for (const char* text : {"", "{", "[]", "{\"version\": 2}", "{\"version\":1,\"originals\":[{}],\"pending\":[]}",
                           "{\"version\":1,\"originals\":[{\"service\":\"a\",\"knob\":\"x\"}],\"pending\":[]}"}) {
    tree.write("journal.json", text);
    const auto read = load_journal(tree / "journal.json");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().kind, ErrorKind::Input);
    EXPECT_NE(read.error().message.find("cannot be read"), std::string::npos);
  }
}

TEST(RestoreTest, GoesOnBehindAnErrorAndKeepsWhatIsLeft) {
  Tree tree;
  tree.cgroup2("a", 10).cgroup2("b", 20).write("cgroup/a/cpuset.cpus", "0-1\n").write("cgroup/b/cpu.max", "1 1\n");
  fs::remove(tree / "cgroup/b/cpuset.cpus");
  fs::create_directory(tree / "cgroup/b/cpuset.cpus");  // a write to it fails
  std::vector<Saved> saved = {{{"lc", Aspect::Cpus, "cgroup2", cgroup("a")}, "0-7"},
                              {{"be", Aspect::Cpus, "cgroup2", cgroup("b")}, "0-7"},
                              {{"gone", Aspect::Cpus, "cgroup2", cgroup("c")}, "0-7"}};
  const Status back = restore_all(saved, tree.roots(), std::nullopt);
  ASSERT_FALSE(back);
  EXPECT_NE(back.error().message.find("be: cpus"), std::string::npos);
  EXPECT_EQ(tree.text("cgroup/a/cpuset.cpus"), "0-7");
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_EQ(saved[0].name.service, "be");
}

}  // namespace
}  // namespace osml
