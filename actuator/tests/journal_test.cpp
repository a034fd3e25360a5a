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
  const Journal journal{{{{"lc", Aspect::Cpus, "cgroup2", cgroup("lc/x"), 7}, "0-3"},
                         {{"be", Aspect::Ways, "resctrl", pids, {}}, "L3:0=ff\n"}},
                        {{{"be", Aspect::Cpus, "affinity", file, {}}, "12 99 0-3\n"}},
                        {{"lc", cgroup("lc/x"), true, 7, {{Aspect::Cpus, "0-1"}}}},
                        "boot"};
  ASSERT_TRUE(save_journal(tree / "journal.json", journal));
  const auto read = load_journal(tree / "journal.json");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->originals.size(), 2U);
  EXPECT_EQ(read->originals[0].name.match.cgroup, "lc/x");
  EXPECT_EQ(read->originals[1].name.match.pids, (std::vector<int>{12, 13}));
  EXPECT_EQ(read->originals[1].snapshot, "L3:0=ff\n");
  EXPECT_EQ(read->pending[0].name.match.pid_file, "/run/x.pid");
  EXPECT_EQ(read->originals[0].name.cgroup_inode, 7U);
  EXPECT_EQ(read->applied, journal.applied);
  EXPECT_EQ(read->boot_id, "boot");
  EXPECT_NE(read->find(journal.originals[0].name), nullptr);
  EXPECT_EQ(read->find({"lc", Aspect::Ways, "resctrl", {}, {}}), nullptr);
}

TEST(JournalTest, APathOfAnOlderAgentIsThatOfTheSameCgroup) {
  const Tree tree;
  ASSERT_TRUE(save_journal(tree / "journal.json", {{}, {}, {{"lc", cgroup("./lc//x/"), true, 7, {}}}, "boot"}));
  const auto read = load_journal(tree / "journal.json");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->applied.at(0).match.cgroup, "lc/x");
}

TEST(JournalTest, NoFileIsAnEmptyJournalAndABrokenOneIsAnError) {
  Tree tree;
  EXPECT_TRUE(load_journal(tree / "none.json")->originals.empty());
  for (const char* text : {"", "{", "[]", "{\"version\": 3}", "{\"version\":1,\"originals\":[{}],\"pending\":[]}",
                           "{\"version\":1,\"originals\":[{\"service\":\"a\",\"knob\":\"x\"}],\"pending\":[]}"}) {
    tree.write("journal.json", text);
    const auto read = load_journal(tree / "journal.json");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().kind, ErrorKind::Input);
    EXPECT_NE(read.error().message.find("cannot be read"), std::string::npos);
  }
}

TEST(JournalTest, WhatNamesFilesOutsideOfTheTreesIsRefused) {
  const Tree tree;
  for (const char* entry :
       {R"("service": "../x", "match": {"cgroup": "a"})", R"("service": "irq/../24", "match": {"pids": []})",
        R"("service": "lc", "match": {"cgroup": "../a"})", R"("service": "lc", "match": {"cgroup": "/etc"})"}) {
    tree.write("journal.json", std::string(R"({"version": 1, "pending": [], "originals": [{"knob": "cpus",
        "backend": "cgroup2", "snapshot": "", )") +
                                   entry + "}]}");
    EXPECT_FALSE(load_journal(tree / "journal.json")) << entry;
  }
}

TEST(KnobNameTest, AnotherBackendMatchOrCgroupIsAnotherKnob) {
  const KnobName name{"lc", Aspect::Cpus, "cgroup2", cgroup("a"), 7};
  KnobName other = name;
  EXPECT_TRUE(same_knob(name, other));
  other.cgroup_inode.reset();  // from a journal of the former version
  EXPECT_TRUE(same_knob(name, other));
  other.cgroup_inode = 8;
  EXPECT_FALSE(same_knob(name, other));
  other = {"lc", Aspect::Cpus, "affinity", cgroup("a"), 7};
  EXPECT_FALSE(same_knob(name, other));
  other = {"lc", Aspect::Cpus, "cgroup2", cgroup("b"), 7};
  EXPECT_FALSE(same_knob(name, other));
  EXPECT_TRUE(
      same_knob({"lc", Aspect::Ways, "resctrl", cgroup("a"), 7}, {"lc", Aspect::Ways, "resctrl", cgroup("b"), 8}));
}

TEST(RestoreTest, GoesOnBehindAnErrorAndKeepsWhatIsLeft) {
  Tree tree;
  tree.cgroup2("a", 10).cgroup2("b", 20).write("cgroup/a/cpuset.cpus", "0-1\n").write("cgroup/b/cpu.max", "1 1\n");
  fs::remove(tree / "cgroup/b/cpuset.cpus");
  fs::create_directory(tree / "cgroup/b/cpuset.cpus");  // a write to it fails
  std::vector<Saved> saved = {{{"lc", Aspect::Cpus, "cgroup2", cgroup("a"), {}}, "0-7"},
                              {{"be", Aspect::Cpus, "cgroup2", cgroup("b"), {}}, "0-7"},
                              {{"gone", Aspect::Cpus, "cgroup2", cgroup("c"), {}}, "0-7"}};
  const Status back = restore_all(saved, tree.roots(), Error{ErrorKind::Unsupported, "no resctrl", 0});
  ASSERT_FALSE(back);
  EXPECT_NE(back.error().message.find("be: cpus"), std::string::npos);
  EXPECT_EQ(tree.text("cgroup/a/cpuset.cpus"), "0-7");
  ASSERT_EQ(saved.size(), 1U);
  EXPECT_EQ(saved[0].name.service, "be");
}

}  // namespace
}  // namespace osml
