#include "base/files.h"

#include <gtest/gtest.h>

#include "scratch_tree.h"

namespace osml {
namespace {

using testing_support::ScratchTree;

TEST(FilesTest, AFileIsWrittenByItsBareName) {
  const ScratchTree tree;
  const fs::path before = fs::current_path();
  fs::current_path(tree.root());
  const Status written = write_atomically("curve.json", "{}\n");
  fs::current_path(before);
  EXPECT_TRUE(written) << written.error().message;
  EXPECT_EQ(tree.text("curve.json"), "{}");
}

}  // namespace
}  // namespace osml
