// The whole of it on access patterns whose misses can be computed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <sstream>
#include <thread>

#include "core.h"
#include "repeated.h"
#include "report.h"
#include "trace.h"

namespace osml::stackdist {
namespace {

class Model : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  SharedModel make(const Geometry& geometry) {
    auto made = SharedModel::create(path_, geometry);
    EXPECT_TRUE(made.ok());
    return std::move(made).value();
  }
  std::string path_ = "/tmp/osml-stackdist-test-" + std::to_string(getpid());
};

Geometry small(std::uint64_t sets, std::uint32_t ways, bool hashed) {
  Geometry geometry;
  geometry.l1i = geometry.l1d = {1, 1};
  geometry.l2 = {1, 1};
  geometry.sets = sets;
  geometry.ways = ways;
  geometry.hashed = hashed;
  return geometry;
}

std::uint64_t misses(const nlohmann::json& report, std::size_t ways, int variant = 0) {
  std::uint64_t sum = 0;
  for (const auto& group : report["groups"]) {
    const auto& demand = group["demand"][variant];
    for (std::size_t i = ways; i < demand.size(); ++i) sum += demand[i].get<std::uint64_t>();
  }
  return sum;
}

std::uint64_t accesses(const nlohmann::json& report) { return misses(report, 0); }

TEST_F(Model, SweepOverMoreThanTheCacheMissesAlwaysAndOverLessNever) {
  auto model = make(small(64, 16, false));
  Core core(model, 0);
  const auto sweep = [&] {
    for (std::uint64_t line = 0; line < 64 * 10; ++line) core.data(line * kLineBytes, 8, false);
  };
  sweep();
  model.start();
  for (int round = 0; round < 5; ++round) sweep();
  const auto found = report(model);
  EXPECT_EQ(accesses(found), 5U * 640U);
  for (std::size_t ways = 1; ways <= 16; ++ways) EXPECT_EQ(misses(found, ways), ways < 10 ? 3200U : 0U) << ways;
}

TEST_F(Model, RandomAccessMissesByTheShareThatDoesNotFit) {
  auto model = make(small(256, 16, true));
  Core core(model, 0);
  std::mt19937_64 draw(3);
  const std::uint64_t lines = 256 * 32;  // twice the cache
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) core.data(draw() % lines * kLineBytes, 8, false);
  };
  run(40'000);
  model.start();
  run(400'000);
  const auto found = report(model);
  for (std::size_t ways = 1; ways <= 16; ++ways) {
    const double ratio = static_cast<double>(misses(found, ways)) / static_cast<double>(accesses(found));
    EXPECT_NEAR(ratio, 1.0 - static_cast<double>(ways) / 32.0, 0.02) << ways;
  }
}

TEST_F(Model, SampledSetsSayWhatAllSetsSay) {
  const auto curve = [&](std::uint32_t shift) {
    Geometry geometry = small(8192, 12, true);
    geometry.sample_shift = shift;
    auto model = make(geometry);
    Core core(model, 0);
    std::mt19937_64 draw(5);
    model.start();
    for (int i = 0; i < 600'000; ++i) {
      const double x = static_cast<double>(draw() % 1'000'000) / 1e6;
      core.data(static_cast<std::uint64_t>(x * x * 120'000) * kLineBytes, 8, false);
    }
    const auto found = report(model);
    std::vector<double> ratios;
    for (std::size_t ways = 1; ways <= 12; ++ways) {
      ratios.push_back(static_cast<double>(misses(found, ways)) / static_cast<double>(accesses(found)));
    }
    EXPECT_NEAR(found["footprint_bytes"].get<double>(), 119'000.0 * kLineBytes, 5'000.0 * kLineBytes);
    return ratios;
  };
  const auto all = curve(0);
  const auto some = curve(4);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(some[i], all[i], 0.02) << i + 1 << " ways";
}

TEST_F(Model, StreamPrefetcherHidesTheMissesOfASweepButNotThoseOfRandomAccess) {
  auto model = make(small(256, 8, true));
  Core core(model, 0);
  model.start();
  for (std::uint64_t line = 0; line < 20'000; ++line) core.data(line * kLineBytes, 8, false);
  const auto sweep = report(model);
  EXPECT_EQ(misses(sweep, 8, 0), 20'000U);
  EXPECT_LT(misses(sweep, 8, 1), 1'000U);  // two a page of 64 lines
  std::mt19937_64 draw(1);
  model.start();
  for (int i = 0; i < 20'000; ++i) core.data(draw() % 10'000'000 * kLineBytes, 8, false);
  const auto random = report(model);
  EXPECT_NEAR(static_cast<double>(misses(random, 8, 1)), static_cast<double>(misses(random, 8, 0)), 200.0);
}

TEST_F(Model, LinesThatAreNeverSeenAgainAreCold) {
  auto model = make(small(256, 4, true));
  Core core(model, 0);
  model.start();
  for (std::uint64_t line = 0; line < 5'000; ++line) core.data(line * kLineBytes, 8, false);
  std::uint64_t cold = 0;
  const auto found = report(model);
  for (const auto& group : found["groups"]) cold += group["demand"][0].back().get<std::uint64_t>();
  EXPECT_NEAR(static_cast<double>(cold), 5'000.0, 5.0);
}

TEST_F(Model, PrivateCachesKeepWhatFitsInThem) {
  Geometry geometry = small(256, 4, true);
  geometry.l1d = {32, 8};
  geometry.l2 = {256, 8};
  auto model = make(geometry);
  Core core(model, 0);
  const auto sweep = [&](std::uint64_t kib) {
    for (std::uint64_t line = 0; line < kib * 16; ++line) core.data(line * kLineBytes, 8, true);
  };
  sweep(128);
  model.start();
  sweep(128);
  EXPECT_EQ(accesses(report(model)), 0U);
  sweep(512);
  sweep(512);
  EXPECT_GT(accesses(report(model)), 512U * 16U);
  std::uint64_t written = 0;
  const auto found = report(model);
  for (const auto& group : found["groups"]) written += group["written"][0][0].get<std::uint64_t>();
  EXPECT_GT(written, 512U * 16U / 2);  // with one way of 16 KiB nearly all that was written goes to memory
}

TEST_F(Model, SlicesKeepAllCountsWhenTheyAreMerged) {
  auto model = make(small(64, 4, true));
  Core core(model, 0);
  model.start();
  const std::uint64_t steps = 3 * kSlices * 8;  // the slices are full after a third
  for (std::uint64_t i = 0; i < steps; ++i) {
    core.data(i * kLineBytes, 8, false);
    core.ran(kFirstSlice / 8);
    core.flush();
  }
  const auto found = report(model);
  std::uint64_t instructions = 0;
  std::uint64_t counted = 0;
  for (const auto& slice : found["slices"]) {
    instructions += slice["instructions"].get<std::uint64_t>();
    for (const auto& count : slice["demand"][0]) counted += count.get<std::uint64_t>();
  }
  EXPECT_EQ(instructions, steps * kFirstSlice / 8);
  EXPECT_EQ(counted, steps);
  EXPECT_EQ(accesses(found), steps);
  EXPECT_LE(found["slices"].size(), kSlices);
  EXPECT_GT(found["slices"].size(), kSlices / 2);
}

TEST_F(Model, ThreadsTogetherCountEverythingOnce) {
  auto model = make(small(1024, 8, true));
  model.start();
  std::vector<std::thread> threads;
  for (std::uint64_t id = 0; id < 4; ++id) {
    threads.emplace_back([&model, id] {
      Core core(model, id << 42U);
      for (std::uint64_t i = 0; i < 20'000; ++i) {
        core.data(i * kLineBytes, 8, false);
        core.ran(10);
      }
      core.flush();
    });
  }
  for (auto& thread : threads) thread.join();
  const auto found = report(model);
  EXPECT_EQ(accesses(found), 80'000U);
  EXPECT_EQ(found["instructions"].get<std::uint64_t>(), 800'000U);
}

TEST_F(Model, StopsCountingButKeepsTheCacheWarm) {
  auto model = make(small(1024, 8, true));
  Core core(model, 0);
  core.data(64, 8, false);
  EXPECT_EQ(accesses(report(model)), 0U);
  model.start();
  core.data(64 * 5000, 8, false);
  model.stop();
  core.data(64 * 6000, 8, false);
  EXPECT_EQ(accesses(report(model)), 1U);
}

TEST_F(Model, RefusesASizeThatMakesNoSense) {
  Geometry geometry;
  geometry.ways = 65;
  EXPECT_EQ(SharedModel::create(path_, geometry).error().message, "ways is 65, expected 1 to 64");
  geometry.ways = 16;
  geometry.sample_shift = 12;
  EXPECT_NE(SharedModel::create(path_, geometry).error().message.find("expected at least 16 sampled"),
            std::string::npos);
  geometry.sample_shift = 1;
  geometry.hashed = false;
  EXPECT_NE(SharedModel::create(path_, geometry).error().message.find("sampling needs hashed sets"), std::string::npos);
  geometry = Geometry{};
  geometry.l2 = {100, 7};
  EXPECT_NE(SharedModel::create(path_, geometry).error().message.find("L2 is 100 KiB with 7 ways"), std::string::npos);
}

TEST_F(Model, RefusesAFileOfSomethingElse) {
  EXPECT_NE(SharedModel::open("/etc/passwd").error().message.find("is no file of osml-stackdist"), std::string::npos);
  EXPECT_EQ(SharedModel::open("/nowhere/at/all").error().code, ENOENT);
}

TEST_F(Model, ReadsATraceOfLackey) {
  auto model = make(small(64, 4, true));
  Core core(model, 0);
  model.start();
  std::istringstream text("==12== Lackey\nI  04001090,3\n S 1ffefffd58,8\n L 1ffefffd78,16\n M 0421c7cc,4\n");
  const auto counts = run_trace(text, core);
  ASSERT_TRUE(counts.ok());
  EXPECT_EQ(counts->instructions, 1U);
  EXPECT_EQ(counts->accesses, 3U);
  EXPECT_EQ(accesses(report(model)), 4U);
}

TEST_F(Model, RefusesALineOfATraceThatIsNone) {
  auto model = make(small(64, 4, true));
  Core core(model, 0);
  for (const char* line : {" L zz,4", " L 10,0", " X 10,4", " L 10", "L", " L ffffffffffffffff,8", " L 10,4 rest"}) {
    std::istringstream text(std::string("I  10,2\n") + line + "\n");
    const auto counts = run_trace(text, core);
    ASSERT_FALSE(counts.ok()) << line;
    EXPECT_NE(counts.error().message.find("line 2 of the trace"), std::string::npos) << line;
  }
}

TEST(Repeated, KnowsTheInstructionsThatQemuRunsOncePerElement) {
  const auto is = [](std::vector<std::uint8_t> code) { return is_repeated(code.data(), code.size()); };
  EXPECT_TRUE(is({0xf3, 0xa4}));               // rep movsb
  EXPECT_TRUE(is({0xf3, 0x48, 0xab}));         // rep stosq
  EXPECT_TRUE(is({0xf2, 0xae}));               // repne scasb
  EXPECT_FALSE(is({0xa4}));                    // movsb alone
  EXPECT_FALSE(is({0xf3, 0x0f, 0x1e, 0xfa}));  // endbr64
  EXPECT_FALSE(is({0xf3, 0x90}));              // pause
}

}  // namespace
}  // namespace osml::stackdist
