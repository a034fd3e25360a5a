#include "base/trust.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/printable.h"
#include "scratch_tree.h"

namespace osml {
namespace {

using testing_support::ScratchTree;

class TrustTest : public testing::Test {
 protected:
  TrustTest() { tree_.write("etc/agent.yaml", "node: n\n"); }
  [[nodiscard]] std::string why() const {
    const Status trusted = refuse_untrusted(file_, "configuration");
    return trusted ? "trusted" : trusted.error().message;
  }
  void own(const fs::path& path, uid_t user, gid_t group) { ASSERT_EQ(::chown(path.c_str(), user, group), 0); }

  ScratchTree tree_;
  fs::path file_ = tree_ / "etc/agent.yaml";
};

TEST_F(TrustTest, AFileOfOursInDirectoriesOfOurs) { EXPECT_EQ(why(), "trusted"); }

TEST_F(TrustTest, WritableByAll) {
  fs::permissions(file_, fs::perms::others_write, fs::perm_options::add);
  EXPECT_NE(why().find("is writable by all users; run: chmod o-w"), std::string::npos) << why();
}

TEST_F(TrustTest, OwnersGroupsAndDirectoriesOfOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  own(file_, 1000, 0);
  EXPECT_NE(why().find("belongs to user 1000"), std::string::npos) << why();
  own(file_, 0, 1000);
  fs::permissions(file_, fs::perms::group_write, fs::perm_options::add);
  EXPECT_NE(why().find("writable by group 1000"), std::string::npos) << why();
  own(file_, 0, 0);
  EXPECT_EQ(why(), "trusted");
  own(tree_ / "etc", 1000, 1000);
  EXPECT_NE(why().find("is in a directory that others can change"), std::string::npos) << why();
}

TEST_F(TrustTest, ALinkIsNoBetterThanWhereItLeads) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  tree_.write("home/agent.yaml", "");
  own(tree_ / "home", 1000, 1000);
  fs::remove(file_);
  fs::create_symlink(tree_ / "home/agent.yaml", file_);
  EXPECT_NE(why().find("is in a directory that others can change"), std::string::npos) << why();
}

TEST_F(TrustTest, ASecretIsNotReadableByAll) {
  fs::permissions(file_, fs::perms(0644));
  EXPECT_FALSE(refuse_readable(file_, "token"));
  fs::permissions(file_, fs::perms(0640));
  EXPECT_TRUE(refuse_readable(file_, "token"));
}

TEST(PrintableTest, ControlCharactersAndLengthAreBounded) {
  EXPECT_EQ(printable("p99 12 ms > 10 ms, \u00fcber", 100), "p99 12 ms > 10 ms, \u00fcber");
  EXPECT_EQ(printable("a\n12:00:00 error\x1b[2J\u009b2J", 100), "a?12:00:00 error?[2J?2J");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("ab\u00fcc", 3), "ab...");
}

}  // namespace
}  // namespace osml
