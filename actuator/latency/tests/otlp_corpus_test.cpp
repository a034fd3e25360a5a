// The corpus of the fuzz target (actuator/fuzz), as a regression test: seeds, and what fuzzing found.
#include <gmock/gmock.h>

#include "../../fuzz/targets.h"
#include "base/files.h"

namespace osml {
namespace {

TEST(OtlpCorpus, IsReadWithoutACrashAndEveryPromiseIsKept) {
  const fs::path folder = fs::path(__FILE__).parent_path().parent_path().parent_path() / "fuzz/corpus/otlp";
  const auto names = list_directory(folder);
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_GE(names->size(), 4U);
  for (const std::string& name : *names) {
    SCOPED_TRACE(name);
    const auto bytes = read_text(folder / name);
    ASSERT_TRUE(bytes) << bytes.error().message;
    fuzz::otlp(*bytes);
  }
}

}  // namespace
}  // namespace osml
