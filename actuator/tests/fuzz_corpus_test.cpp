// The corpus of the fuzz targets (actuator/fuzz), as a regression test: seeds, and what fuzzing found.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "../fuzz/targets.h"
#include "base/files.h"

namespace osml {
namespace {

class FuzzCorpus : public testing::TestWithParam<const char*> {};

TEST_P(FuzzCorpus, IsReadWithoutACrashAndEveryPromiseIsKept) {
  const std::map<std::string, std::function<void(std::string_view)>> targets = {
      {"decision", fuzz::decision},     {"telemetry", fuzz::telemetry},
      {"schemata", fuzz::schemata},     {"pods", fuzz::pods},
      {"prometheus", fuzz::prometheus}, {"prometheus_protobuf", fuzz::prometheus_protobuf}};
  const fs::path folder = fs::path(__FILE__).parent_path().parent_path() / "fuzz/corpus" / GetParam();
  const auto names = list_directory(folder);
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_GE(names->size(), 4U);
  for (const std::string& name : *names) {
    SCOPED_TRACE(name);
    const auto bytes = read_text(folder / name);
    ASSERT_TRUE(bytes) << bytes.error().message;
    targets.at(GetParam())(*bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzCorpus,
                         testing::Values("decision", "telemetry", "schemata", "prometheus", "prometheus_protobuf",
                                         "pods"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace osml
