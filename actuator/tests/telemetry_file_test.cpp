// Telemetry files as they are in the field: missing, half-written, rotated, truncated, stale, full of other things.
#include "telemetry/telemetry_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "scratch_tree.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing_support::ScratchTree;

class TelemetryFileTest : public testing::Test {
 protected:
  const Result<TelemetryReading>& next() { return file_.read({++turn_, static_cast<double>(turn_), 1.0}); }

  ScratchTree tree_;
  std::uint64_t turn_ = 0;
  TelemetryFile file_{tree_ / "t.jsonl", 3.0, 1.0};
};

TEST_F(TelemetryFileTest, MissingFileSaysSoAndRecovers) {
  EXPECT_THAT(next().error().message, HasSubstr("No such file"));
  tree_.write("t.jsonl", "{\"p99_ms\": 4}\n");
  ASSERT_TRUE(next());
  EXPECT_EQ(file_.read({turn_, 0, 1})->sample.latency.p99_ms, 4.0);
}

// The unit takes from root the right to read what modes forbid; a shell of root still has it.
TEST_F(TelemetryFileTest, AFileThatTheAgentMayNotReadSaysWhatToDo) {
  tree_.write("t.jsonl", "{\"p99_ms\": 4}\n");
  fs::permissions(tree_.root(), fs::perms(0755));
  fs::permissions(tree_ / "t.jsonl", fs::perms::none);
  const uid_t user = ::geteuid();
  constexpr uid_t nobody = 65534;
  ASSERT_EQ(user == 0 ? ::seteuid(nobody) : 0, 0);
  const std::string closed = next() ? "" : file_.read({turn_, 0, 1}).error().message;
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_THAT(closed, HasSubstr("Permission denied; the agent has no right to read files of others: run chmod o+r"));
  fs::permissions(tree_ / "t.jsonl", fs::perms(0644));
  EXPECT_TRUE(next());
}

TEST_F(TelemetryFileTest, HalfWrittenLineWaitsUntilItIsComplete) {
  tree_.write("t.jsonl", "{\"p99_ms\": 4}\n{\"p99_ms\": 5");
  EXPECT_EQ(next()->sample.latency.p99_ms, 4.0);
  tree_.append("t.jsonl", "0}\n");
  EXPECT_EQ(next()->sample.latency.p99_ms, 50.0);
}

TEST_F(TelemetryFileTest, OnlyAHalfLineIsNoReading) {
  tree_.write("t.jsonl", "{\"p99_ms\": 4");
  EXPECT_THAT(next().error().message, HasSubstr("no complete line yet"));
}

TEST_F(TelemetryFileTest, OldLinesAtTheFirstLookAreHistory) {
  tree_.write("t.jsonl", "{\"mean_ms\": 100}\n{\"mean_ms\": 2}\n");
  EXPECT_EQ(next()->sample.latency.mean_ms, 2.0);
}

TEST_F(TelemetryFileTest, LinesOfOneIntervalAreCombined) {
  tree_.write("t.jsonl", "{}\n");
  (void)next();
  tree_.append("t.jsonl",
               "{\"mean_ms\": 1, \"p99_ms\": 9, \"samples\": 300, \"requests_per_s\": 100}\n"
               "{\"mean_ms\": 5, \"p99_ms\": 7, \"samples\": 100, \"requests_per_s\": 50, \"work_rate\": 3}\n");
  const auto& reading = next();
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->sample.latency.mean_ms, 2.0);
  EXPECT_EQ(reading->sample.latency.p99_ms, 9.0);
  EXPECT_EQ(reading->sample.latency.samples, 400U);
  EXPECT_EQ(reading->sample.latency.requests_per_s, 75.0);
  EXPECT_EQ(reading->sample.counters.work_rate, 3.0);
}

TEST_F(TelemetryFileTest, ALineOfNoSamplesKeepsItsMean) {
  tree_.write("t.jsonl", "{}\n");
  (void)next();
  tree_.append("t.jsonl", "{\"mean_ms\": 3, \"p99_ms\": 9, \"samples\": 0}\n");
  EXPECT_EQ(next()->sample.latency.mean_ms, 3.0);
  EXPECT_EQ(next()->sample.latency.mean_ms, 3.0) << "no new line";
  tree_.append("t.jsonl", "{\"mean_ms\": 3, \"samples\": 0}\n{\"mean_ms\": 5, \"samples\": 0}\n");
  EXPECT_EQ(next()->sample.latency.mean_ms, 4.0);
  tree_.append("t.jsonl", "{\"mean_ms\": 3, \"samples\": 0}\n{\"mean_ms\": 7, \"samples\": 2}\n");
  EXPECT_EQ(next()->sample.latency.mean_ms, 7.0);
  tree_.append("t.jsonl", "{\"mean_ms\": 3, \"samples\": 0}\n{\"p99_ms\": 9, \"samples\": 5}\n");
  EXPECT_FALSE(next()->sample.latency.mean_ms) << "a mean of no request is not that of five";
}

TEST_F(TelemetryFileTest, AmountsAreOfTheLinesOfOneInterval) {
  tree_.write("t.jsonl", "{}\n");
  (void)next();
  tree_.append("t.jsonl",
               "{\"instructions\": 100, \"throttled_s\": 0.25, \"ipc\": 1}\n"
               "{\"instructions\": 50, \"llc_misses\": 7, \"ipc\": 2}\n");
  const Counters both = next()->sample.counters;
  EXPECT_EQ(both.instructions, 150.0);
  EXPECT_EQ(both.throttled_s, 0.25);
  EXPECT_EQ(both.llc_misses, 7.0);
  EXPECT_EQ(both.ipc, 2.0);
  EXPECT_FALSE(both.cycles);
  const Counters none = next()->sample.counters;
  EXPECT_FALSE(none.instructions);
  EXPECT_FALSE(none.throttled_s);
  EXPECT_EQ(none.ipc, 2.0) << "a level stands until it is too old";
}

// Writer and agent have a clock each: a turn without a line, and one with two.
TEST_F(TelemetryFileTest, AmountsAreOfAnIntervalHoweverManyLinesCameInIt) {
  tree_.write("t.jsonl", "{}\n");
  (void)next();
  tree_.append("t.jsonl",
               "{\"interval_s\": 1, \"cycles\": 100, \"ipc\": 1}\n"
               "{\"interval_s\": 1.0, \"cycles\": 300, \"llc_misses\": 8, \"ipc\": 2}\n");
  const Counters two = next()->sample.counters;
  EXPECT_EQ(two.cycles, 200.0);
  EXPECT_EQ(two.llc_misses, 4.0);
  EXPECT_EQ(two.ipc, 2.0) << "no amount";
  tree_.append("t.jsonl", "{\"interval_s\": 5, \"cycles\": 500}\n");
  EXPECT_EQ(next()->sample.counters.cycles, 100.0) << "a slow writer";
  tree_.append("t.jsonl", "{\"interval_s\": 1.02, \"cycles\": 500}\n");
  EXPECT_EQ(next()->sample.counters.cycles, 500.0) << "as long, for two clocks";
  tree_.append("t.jsonl", "{\"interval_s\": 1, \"cycles\": 100}\n{\"cycles\": 100}\n");
  EXPECT_EQ(next()->sample.counters.cycles, 200.0) << "nobody knows how long";
}

// As after a reload.
TEST_F(TelemetryFileTest, AmountsOfTheFirstLookAreOfAnotherTime) {
  tree_.write("t.jsonl", "{\"cycles\": 100, \"ipc\": 1}\n");
  const Counters first = next()->sample.counters;
  EXPECT_FALSE(first.cycles);
  EXPECT_EQ(first.ipc, 1.0);
  tree_.append("t.jsonl", "{\"cycles\": 50}\n");
  EXPECT_EQ(next()->sample.counters.cycles, 50.0);
}

TEST_F(TelemetryFileTest, OfATruncatedFileTheNewestLineCounts) {
  tree_.write("t.jsonl", "{\"p99_ms\": 1}\n{\"p99_ms\": 2}\n");
  (void)next();
  tree_.write("t.jsonl", "{\"p99_ms\": 3}\n");
  EXPECT_EQ(next()->sample.latency.p99_ms, 3.0);
}

TEST_F(TelemetryFileTest, RotatedFileIsReadFromItsStart) {
  tree_.write("t.jsonl", "{\"p99_ms\": 1}\n");
  (void)next();
  fs::rename(tree_ / "t.jsonl", tree_ / "t.jsonl.1");
  tree_.write("t.jsonl", "{\"p99_ms\": 30}\n{\"p99_ms\": 31}\n");
  EXPECT_EQ(next()->sample.latency.p99_ms, 31.0);
}

TEST_F(TelemetryFileTest, LinesBeforeARotationCountToo) {
  tree_.write("t.jsonl", "{\"samples\": 1}\n");
  (void)next();
  tree_.append("t.jsonl", "{\"samples\": 2}\n{\"samples\": 3}\n{\"samp");
  fs::rename(tree_ / "t.jsonl", tree_ / "t.jsonl.1");
  tree_.write("t.jsonl", "{\"samples\": 10}\n");
  EXPECT_EQ(next()->sample.latency.samples, 15U);
  tree_.append("t.jsonl", "{\"samples\": 20}\n");
  fs::rename(tree_ / "t.jsonl", tree_ / "t.jsonl.1");
  EXPECT_FALSE(next()) << "no file";
  tree_.write("t.jsonl", "{\"samples\": 5}\n");
  EXPECT_EQ(next()->sample.latency.samples, 25U);
}

TEST_F(TelemetryFileTest, AFileThatGrewWhileItWasAwayGoesOn) {
  tree_.write("t.jsonl", "{\"samples\": 1}\n");
  (void)next();
  tree_.append("t.jsonl", "{\"samples\": 2}\n{\"samples\": 3}\n");
  fs::rename(tree_ / "t.jsonl", tree_ / "away.jsonl");
  EXPECT_FALSE(next());
  fs::rename(tree_ / "away.jsonl", tree_ / "t.jsonl");
  EXPECT_EQ(next()->sample.latency.samples, 5U);
}

TEST_F(TelemetryFileTest, StaleFileIsMissingAndNotOldNews) {
  tree_.write("t.jsonl", "{\"p99_ms\": 1}\n");
  EXPECT_TRUE(next());
  fs::last_write_time(tree_ / "t.jsonl", fs::file_time_type::clock::now() - std::chrono::seconds(60));
  const auto& reading = next();
  ASSERT_FALSE(reading);
  EXPECT_THAT(reading.error().message, HasSubstr("is stale: last written 60"));
}

TEST_F(TelemetryFileTest, AFileFromTheFutureGrowsOldToo) {
  tree_.write("t.jsonl", "{\"p99_ms\": 1}\n");
  fs::last_write_time(tree_ / "t.jsonl", fs::file_time_type::clock::now() + std::chrono::hours(1));
  for (int interval = 0; interval < 4; ++interval) EXPECT_TRUE(next());
  const auto& reading = next();
  ASSERT_FALSE(reading);
  EXPECT_THAT(reading.error().message, HasSubstr("is stale: last written 4"));
  tree_.append("t.jsonl", "{\"p99_ms\": 2}\n");
  EXPECT_EQ(next()->sample.latency.p99_ms, 2.0);
}

TEST_F(TelemetryFileTest, OnlyACompleteNewLineRenewsTheAge) {
  tree_.write("t.jsonl", "{\"p99_ms\": 1}\n");
  for (int interval = 0; interval < 3; ++interval) {
    EXPECT_TRUE(next());
    tree_.append("t.jsonl", "{\"p99");
    fs::last_write_time(tree_ / "t.jsonl", fs::file_time_type::clock::now());
  }
  (void)next();
  EXPECT_THAT(next().error().message, HasSubstr("is stale"));
}

TEST_F(TelemetryFileTest, AFileThatIsOnlyTouchedGrowsOld) {
  tree_.write("t.jsonl", "{\"p99_ms\": 1}\n");
  fs::last_write_time(tree_ / "t.jsonl", fs::file_time_type::clock::now() - std::chrono::seconds(60));
  EXPECT_THAT(next().error().message, HasSubstr("is stale"));
  for (int interval = 0; interval < 5; ++interval) {
    fs::last_write_time(tree_ / "t.jsonl", fs::file_time_type::clock::now() + std::chrono::seconds(interval));
    EXPECT_FALSE(next());
  }
}

TEST_F(TelemetryFileTest, AFileThatIsWrittenOverAtTheSameLengthIsRead) {
  tree_.write("t.jsonl", "{\"p99_ms\": 1}\n{\"p99_ms\": 2}\n");
  EXPECT_EQ(next()->sample.latency.p99_ms, 2.0);
  for (int interval = 3; interval < 9; ++interval) {
    tree_.write("t.jsonl", "{\"p99_ms\": 0}\n{\"p99_ms\": " + std::to_string(interval) + "}\n");
    fs::last_write_time(tree_ / "t.jsonl", fs::file_time_type::clock::now() + std::chrono::seconds(interval));
    const auto& reading = next();
    ASSERT_TRUE(reading) << reading.error().message;
    EXPECT_EQ(reading->sample.latency.p99_ms, interval);
  }
}

TEST_F(TelemetryFileTest, AFileThatIsWrittenOverWithALongerLineIsRead) {
  for (const char* value : {"9.87", "10.12", "1000000.12", "2000000.123"}) {
    tree_.write("t.jsonl", std::string("{\"p99_ms\": ") + value + "}\n");
    const auto& reading = next();
    ASSERT_TRUE(reading) << value << ": " << reading.error().message;
    EXPECT_EQ(reading->sample.latency.p99_ms, std::stod(value));
  }
}

TEST_F(TelemetryFileTest, AFileThatIsWrittenOverWithMoreLinesBringsItsNewest) {
  tree_.write("t.jsonl", "{\"samples\": 1}\n");
  (void)next();
  tree_.write("t.jsonl", "{\"samples\": 2}\n{\"samples\": 3}\n{\"samples\": 40}\n");
  EXPECT_EQ(next()->sample.latency.samples, 40U);
}

TEST_F(TelemetryFileTest, AFileThatIsWrittenOverWithFewerBytesBringsItsNewest) {
  tree_.write("t.jsonl", "{\"samples\": 1, \"mean_ms\": 1000, \"requests_per_s\": 100}\n");
  (void)next();
  tree_.write("t.jsonl", "{\"samples\": 2}\n{\"samples\": 40}\n");
  EXPECT_EQ(next()->sample.latency.samples, 40U);
  tree_.append("t.jsonl", "{\"samples\": 5}\n{\"samples\": 6}\n");
  EXPECT_EQ(next()->sample.latency.samples, 11U);
}

// A look between truncating and writing, as of any writer that opens a file for writing.
TEST_F(TelemetryFileTest, AFileThatWasEmptyWhileItWasWrittenOverBringsItsNewest) {
  tree_.write("t.jsonl", "{\"samples\": 1}\n{\"samples\": 2}\n");
  (void)next();
  tree_.write("t.jsonl", "");
  (void)next();
  tree_.write("t.jsonl", "{\"samples\"");
  (void)next();
  tree_.append("t.jsonl", ": 2}\n{\"samples\": 3}\n{\"samples\": 40}\n");
  EXPECT_EQ(next()->sample.latency.samples, 40U);
  tree_.append("t.jsonl", "{\"samples\": 5}\n{\"samples\": 6}\n");
  EXPECT_EQ(next()->sample.latency.samples, 11U) << "then it goes on as any other";
}

// A look in the middle of an append sees the new time and the old bytes.
TEST_F(TelemetryFileTest, AmountsOfALineThatIsThereOnceMoreCountOnce) {
  const auto path = tree_ / "t.jsonl";
  tree_.write("t.jsonl", "{}\n");
  (void)next();
  tree_.append("t.jsonl", "{\"cycles\": 100, \"p99_ms\": 4}\n");
  EXPECT_EQ(next()->sample.counters.cycles, 100.0);
  const auto before = fs::last_write_time(path);
  while (fs::last_write_time(path) == before) tree_.write("t.jsonl", "{}\n{\"cycles\": 100, \"p99_ms\": 4}\n");
  const auto& again = next();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(again->sample.counters.cycles);
  EXPECT_EQ(again->sample.latency.p99_ms, 4.0);
}

TEST_F(TelemetryFileTest, AFileThatIsWrittenOverWithTheSameLineStaysFresh) {
  const auto path = tree_ / "t.jsonl";
  tree_.write("t.jsonl", "{\"p99_ms\": 1}\n");
  for (int interval = 0; interval < 9; ++interval) {
    const auto before = fs::last_write_time(path);
    while (fs::last_write_time(path) == before) tree_.write("t.jsonl", "{\"p99_ms\": 1}\n");
    const auto& reading = next();
    ASSERT_TRUE(reading) << reading.error().message;
    EXPECT_EQ(reading->sample.latency.p99_ms, 1.0);
  }
}

TEST_F(TelemetryFileTest, APathThatFailsForAMomentBringsNoLineTwice) {
  tree_.write("t.jsonl", "{\"samples\": 1}\n{\"samples\": 2}\n");
  (void)next();
  fs::rename(tree_ / "t.jsonl", tree_ / "away.jsonl");
  EXPECT_FALSE(next());
  fs::rename(tree_ / "away.jsonl", tree_ / "t.jsonl");
  tree_.append("t.jsonl", "{\"samples\": 4}\n");
  const auto& reading = next();
  ASSERT_TRUE(reading) << reading.error().message;
  EXPECT_EQ(reading->sample.latency.samples, 4U);
}

TEST_F(TelemetryFileTest, AgeIsNodeTime) {
  TelemetryFile fast(tree_ / "t.jsonl", 3.0, 100.0);
  tree_.write("t.jsonl", "{\"p99_ms\": 1}\n");
  fs::last_write_time(tree_ / "t.jsonl", fs::file_time_type::clock::now() - std::chrono::seconds(1));
  EXPECT_THAT(fast.read({1, 1, 1}).error().message, HasSubstr("stale"));
}

TEST_F(TelemetryFileTest, FileThatIsNoTelemetry) {
  tree_.write("t.jsonl", "<html>\n[1, 2]\n");
  EXPECT_THAT(next().error().message, HasSubstr("contains no JSON lines"));
}

TEST_F(TelemetryFileTest, ReadOncePerInterval) {
  tree_.write("t.jsonl", "{\"p99_ms\": 1}\n");
  (void)next();
  tree_.append("t.jsonl", "{\"p99_ms\": 2}\n");
  EXPECT_EQ(file_.read({turn_, 0, 1})->sample.latency.p99_ms, 1.0);
}

TEST(TelemetryLine, MissingIsNeverZero) {
  const auto sample =
      parse_telemetry_line(R"({"p99_ms": null, "ipc": "fast", "cycles": -1, "novelty": 5, "rss_mib": 0})");
  ASSERT_TRUE(sample);
  EXPECT_FALSE(sample->latency.p99_ms);
  EXPECT_FALSE(sample->latency.mean_ms);
  EXPECT_FALSE(sample->counters.ipc);
  EXPECT_FALSE(sample->counters.cycles);
  EXPECT_EQ(sample->counters.rss_mib, 0.0);
}

TEST_F(TelemetryFileTest, ADeviceBehindALinkIsRefused) {
  fs::create_symlink("/dev/zero", tree_ / "t.jsonl");
  EXPECT_THAT(next().error().message, HasSubstr("is a symbolic link"));
}

TEST_F(TelemetryFileTest, ADirectoryOrAPipeIsRefused) {
  fs::create_directory(tree_ / "t.jsonl");
  EXPECT_THAT(next().error().message, HasSubstr("no regular file"));
  fs::remove(tree_ / "t.jsonl");
  ASSERT_EQ(::mkfifo((tree_ / "t.jsonl").c_str(), 0600), 0);
  EXPECT_THAT(next().error().message, HasSubstr("no regular file"));
}

TEST_F(TelemetryFileTest, AFileThatGrowsByGigabytesIsReadAtItsEnd) {
  tree_.write("t.jsonl", "{\"p99_ms\": 1}\n");
  (void)next();
  fs::resize_file(tree_ / "t.jsonl", std::uintmax_t{5} << 30U);  // sparse
  tree_.append("t.jsonl", "\n{\"p99_ms\": 7}\n");
  const auto before = std::chrono::steady_clock::now();
  const auto& reading = next();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
  ASSERT_TRUE(reading) << reading.error().message;
  EXPECT_EQ(reading->sample.latency.p99_ms, 7.0);
}

TEST_F(TelemetryFileTest, OfAFloodOfLinesTheNewestCount) {
  tree_.write("t.jsonl", "{}\n");
  (void)next();
  std::string flood;
  for (int line = 0; line < 5000; ++line) flood += "{\"mean_ms\": 1, \"samples\": 1}\n";
  tree_.append("t.jsonl", flood);
  const auto& reading = next();
  ASSERT_TRUE(reading) << reading.error().message;
  EXPECT_EQ(reading->sample.latency.samples, 1024U);
}

}  // namespace
}  // namespace osml
