#include "base/trust.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

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

// A user whose group has his name and no other member, as useradd makes them: such an account is on every Linux.
class SudoTest : public TrustTest {
 protected:
  SudoTest() {
    setgrent();
    for (const struct group* entry = getgrent(); entry != nullptr && user_ == 0; entry = getgrent()) {
      const struct passwd* account = getpwnam(entry->gr_name);
      if (account == nullptr || account->pw_uid == 0 || account->pw_gid != entry->gr_gid) continue;
      if (*entry->gr_mem != nullptr) continue;
      user_ = account->pw_uid;
      group_ = account->pw_gid;
    }
    endgrent();
  }
  ~SudoTest() override {
    unsetenv("SUDO_UID");
    unsetenv("SUDO_GID");
  }
  SudoTest(const SudoTest&) = delete;
  SudoTest& operator=(const SudoTest&) = delete;

  // The checkout of a user with umask 002, as Ubuntu sets it: modes 664 and 775.
  void give_all_to(uid_t user, gid_t group) {
    own(tree_ / "etc", user, group);
    own(file_, user, group);
    fs::permissions(tree_ / "etc", fs::perms(0775));
    fs::permissions(file_, fs::perms(0664));
  }
  static void call_sudo(uid_t user, gid_t group) {
    setenv("SUDO_UID", std::to_string(user).c_str(), 1);
    setenv("SUDO_GID", std::to_string(group).c_str(), 1);
  }

  uid_t user_ = 0;
  gid_t group_ = 0;
};

TEST_F(SudoTest, TheCallerAndHisPrivateGroupAreTrusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  if (user_ == 0) GTEST_SKIP() << "no account here has a group of its own";
  give_all_to(user_, group_);
  EXPECT_NE(why(), "trusted");
  call_sudo(user_, group_);
  EXPECT_EQ(why(), "trusted");
}

TEST_F(SudoTest, AGroupOfOthersIsNot) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  if (user_ == 0) GTEST_SKIP() << "no account here has a group of its own";
  constexpr gid_t kShared = 54321;  // SUDO_GID of a caller whose login group is no account of his own
  call_sudo(user_, kShared);
  give_all_to(user_, kShared);
  EXPECT_NE(why().find("is writable by group 54321"), std::string::npos) << why();
  call_sudo(user_, group_);
  EXPECT_NE(why().find("is writable by group 54321"), std::string::npos) << why();
}

// Each Debian has such accounts: `sync` and `nobody` log in with the group `nogroup`, which has no members.
TEST_F(SudoTest, AGroupWithWhichOthersLogInIsNot) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  uid_t user = 0;
  gid_t group = 0;
  setpwent();
  for (const struct passwd* one = getpwent(); one != nullptr; one = getpwent()) {
    const struct group* entry = getgrgid(one->pw_gid);
    if (one->pw_uid == 0 || entry == nullptr || one->pw_gid == 0) continue;
    user = one->pw_uid, group = one->pw_gid;
    if (std::string(entry->gr_name) == "nogroup") break;
  }
  endpwent();
  if (group == 0) GTEST_SKIP() << "no account here has a group";
  if (const struct group* entry = getgrgid(group); std::string(entry->gr_name) != "nogroup")
    GTEST_SKIP() << "no nogroup";
  call_sudo(user, group);
  give_all_to(user, group);
  EXPECT_NE(why().find("is writable by group " + std::to_string(group)), std::string::npos) << why();
}

TEST_F(TrustTest, AllRefusalsOfAPathAreToldAtOnce) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  own(tree_ / "etc", 1000, 1000);
  own(file_, 1000, 1000);
  fs::permissions(tree_ / "etc", fs::perms(0775));
  fs::permissions(file_, fs::perms(0664));
  const std::string file = file_.string();
  const std::string folder = (tree_ / "etc").string();
  EXPECT_EQ(why(),
            "configuration " + file + " belongs to user 1000, expected root; configuration " + file +
                " is writable by group 1000; configuration is in a directory that others can change: " + folder +
                " belongs to user 1000, expected root; configuration is in a directory that others can change: " +
                folder + " is writable by group 1000; put it where only root can write, such as /etc/osml");
  own(tree_ / "etc", 0, 1000);
  EXPECT_NE(why().find("; run: chown root " + file + " && chmod g-w " + file + " && chmod g-w " + folder),
            std::string::npos)
      << why();
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
