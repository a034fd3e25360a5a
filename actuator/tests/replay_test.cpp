// Records as `run --record` writes them, whole and broken, and what counts as the same outcome.
#include "replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "replay/pace.h"
#include "scratch_tree.h"

namespace osml {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing_support::ScratchTree;

json decision(std::uint64_t seq, const std::string& cpus = "0-3") {
  return {{"schema", "osml/decision/v1"},
          {"node", "demo"},
          {"seq", seq},
          {"policy", "arq"},
          {"partition", {{"regions", {{{"owners", {"moses"}}, {"cores", 4}, {"ways", 0}}}}}},
          {"assignments", {{{"service", "moses"}, {"cpus", cpus}}}}};
}

// One line: the observation says what came of the decision before.
std::string line(std::uint64_t seq, const json& decided, const json& outcome = nullptr) {
  const json observation = {
      {"schema", "osml/observation/v1"}, {"node", "demo"},    {"seq", seq}, {"time_s", static_cast<double>(seq)},
      {"services", json::array()},       {"outcome", outcome}};
  return json{{"observation", observation}, {"decision", decided}}.dump() + "\n";
}

json came_of(std::uint64_t seq, const std::string& status) {
  return {{"seq", seq}, {"status", status}, {"message", ""}, {"duration_ms", 1.5}};
}

class RecordTest : public testing::Test {
 protected:
  RecordTest() {
    config_.node = "demo";
    config_.services.resize(1);
    config_.services[0].spec.name = "moses";
  }
  std::vector<RecordedDecision> read(SeqRange range = {}) {
    std::vector<RecordedDecision> found;
    auto file = RecordFile::open(path(), config_, range);
    if (!file) return found;
    for (auto one = file->next(); one && *one; one = file->next()) found.push_back(**one);
    return found;
  }
  std::string complaint(const std::string& text, SeqRange range = {}) {
    tree_.write("record.jsonl", text);
    const auto checked = check_record(path(), config_, range);
    if (checked) return "";
    EXPECT_EQ(checked.error().kind, ErrorKind::Input);
    return checked.error().message;
  }
  fs::path path() { return tree_ / "record.jsonl"; }

  ScratchTree tree_;
  Config config_;
};

TEST_F(RecordTest, OutcomeIsWhatTheNextObservationReports) {
  tree_.write("record.jsonl", line(1, decision(1)) + line(2, decision(2), came_of(1, "applied")) +
                                  line(3, nullptr, came_of(2, "refused")) +
                                  line(4, decision(4), came_of(2, "refused")));
  const auto found = read();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].outcome->status, OutcomeStatus::Applied);
  EXPECT_EQ(found[1].outcome->status, OutcomeStatus::Refused);
  EXPECT_EQ(found[1].line, 2U);
  EXPECT_EQ(found[2].decision.seq, 4U);
  EXPECT_FALSE(found[2].outcome) << "nothing followed that could say";
  const auto checked = check_record(path(), config_, {});
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(*checked, 3U);
}

TEST_F(RecordTest, ARestartOfTheAgentDoesNotLendItsOutcomes) {
  // the second run begins at 1 again and knows of no outcome
  tree_.write("record.jsonl",
              line(1, decision(1)) + line(1, decision(1)) + line(2, decision(2), came_of(1, "unchanged")));
  const auto found = read();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_FALSE(found[0].outcome);
  EXPECT_EQ(found[1].outcome->status, OutcomeStatus::Unchanged);
}

TEST_F(RecordTest, RangeHoldsBothEndsAndKeepsTheOutcomeOfItsLast) {
  std::string text = line(1, decision(1));
  for (std::uint64_t seq = 2; seq <= 6; ++seq) text += line(seq, decision(seq), came_of(seq - 1, "applied"));
  tree_.write("record.jsonl", text);
  const auto found = read({2, 4});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found.front().decision.seq, 2U);
  EXPECT_EQ(found.back().decision.seq, 4U);
  EXPECT_TRUE(found.back().outcome);
  EXPECT_THAT(complaint(text, {7, std::nullopt}), HasSubstr("no decision from --from to --to"));
}

TEST_F(RecordTest, EveryBrokenLineIsNamed) {
  const std::string text = line(1, decision(1)) + "observation: {\n" + line(3, decision(3)) + "[]\n" +
                           R"({"observation": {"a": tru}, "decision": null})" + "\n" + R"({"observation": tru})" +
                           "\n" + R"({"observation": 1e999})" + "\n";
  const std::string said = complaint(text);
  EXPECT_THAT(said, AllOf(HasSubstr("record.jsonl:2: not valid JSON"), HasSubstr("record.jsonl:4: "),
                          HasSubstr("record.jsonl:5: not valid JSON"), HasSubstr("record.jsonl:6: not valid JSON"),
                          HasSubstr("record.jsonl:7: not valid JSON")));
  EXPECT_EQ(split_lines(said).size(), 5U) << said;
}

// The recorder ends what a power cut left, and goes on behind it.
TEST_F(RecordTest, HalfALineInTheMiddleIsPassedOverAndBreaksThePairs) {
  const std::string whole = line(2, decision(2), came_of(1, "applied"));
  const std::string text = line(1, decision(1)) + whole.substr(0, whole.size() / 2) + "\n" +
                           line(3, decision(3), came_of(1, "applied")) + line(4, nullptr, came_of(3, "applied"));
  EXPECT_EQ(complaint(text), "");
  const auto found = read();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_FALSE(found[0].outcome) << "what followed is not known";
  EXPECT_EQ(found[1].line, 3U);
  EXPECT_TRUE(found[1].outcome);
  auto file = RecordFile::open(path(), config_, {});
  while (*file->next()) {
  }
  EXPECT_EQ(file->damaged(), 1U);
  EXPECT_THAT(complaint(line(1, decision(1)) + "{\"observation\": "), HasSubstr("record.jsonl:2: not valid JSON"))
      << "a file that was cut";
}

TEST_F(RecordTest, HalfALineIsOneWhereverItWasCut) {
  const std::string whole = R"({"a": -1.5e-3, "b": [true, null, "\u00e4\n)"
                            "\xc3\xa4"
                            R"("], "c": {}})";
  for (std::size_t end = 1; end < whole.size(); ++end) {
    const std::string text = line(1, decision(1)) + whole.substr(0, end) + "\n" + line(2, decision(2));
    EXPECT_EQ(complaint(text), "") << whole.substr(0, end);
  }
}

TEST_F(RecordTest, OneSentenceForWhatIsWrong) {
  json other = decision(1);
  other["node"] = "elsewhere";
  EXPECT_THAT(complaint(line(1, other)), HasSubstr("answers another observation"));
  EXPECT_THAT(complaint(line(1, decision(7))), HasSubstr("decision.seq 7"));
  json stranger = decision(1);
  stranger["assignments"][0]["service"] = "redis";
  EXPECT_THAT(complaint(line(1, stranger)), HasSubstr("service 'redis' is not in the configuration"));
  json novel = decision(1);
  novel["assignments"][0]["gpu"] = 1;
  EXPECT_THAT(complaint(line(1, novel)), HasSubstr("decision.assignments[0].gpu: unknown key"));
  EXPECT_THAT(complaint(line(1, decision(1, "eight"))), HasSubstr("decision.assignments[0].cpus"));
  EXPECT_THAT(complaint(line(1, decision(1)) + line(2, nullptr, came_of(1, "maybe"))),
              HasSubstr("observation.outcome.status"));
  json extra = json::parse(line(1, decision(1)));
  extra["comment"] = "hello";
  EXPECT_THAT(complaint(extra.dump() + "\n"), HasSubstr("comment: unknown key"));
  extra.erase("comment");
  extra.erase("decision");
  EXPECT_THAT(complaint(extra.dump() + "\n"), HasSubstr("decision: null, expected a decision"));
  json timeless = json::parse(line(1, decision(1)));
  timeless["observation"]["time_s"] = "noon";
  EXPECT_THAT(complaint(timeless.dump() + "\n"), HasSubstr("observation.time_s"));
  EXPECT_THAT(complaint(line(1, nullptr)), HasSubstr("no decision in the file (1 intervals without an answer)"));
  EXPECT_THAT(complaint(""), HasSubstr("no decision"));
  config_.node = "other-node";
  EXPECT_THAT(complaint(line(1, decision(1))), HasSubstr("'demo', expected 'other-node'"));
}

TEST_F(RecordTest, AMissingFileAndADirectoryAreNoRecords) {
  EXPECT_THAT(check_record(path(), config_, {}).error().message, HasSubstr("no such file"));
  EXPECT_THAT(check_record(tree_.root(), config_, {}).error().message, HasSubstr("no such file"));
}

TEST_F(RecordTest, ALineWithoutEndIsNotTakenIntoMemory) {
  const std::string hole(std::size_t{9} << 20U, ' ');
  EXPECT_THAT(complaint(line(1, decision(1)) + hole), HasSubstr("record.jsonl:2: the line is longer than 4 MiB"));
  const std::string text = complaint(hole + "\n" + line(1, decision(1)) + "{");
  EXPECT_THAT(text, AllOf(HasSubstr("record.jsonl:1: the line is longer than 4 MiB"),
                          HasSubstr("record.jsonl:3: not valid JSON")));
  const std::string whole = line(1, decision(1));
  EXPECT_EQ(complaint(whole.substr(0, whole.size() - 1)), "") << "the last line may lack its end";
}

TEST_F(RecordTest, AFileThatCannotBeReadOnIsAnError) {
  const auto checked = check_record("/proc/self/mem", config_, {});  // nothing is mapped at its beginning
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("/proc/self/mem:1: the rest of the file cannot be read"));
}

TEST_F(RecordTest, ManyBrokenLinesAreCutShort) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "x\n";
  EXPECT_THAT(complaint(text), HasSubstr("and 30 more"));
}

TEST(Replay, SameEffect) {
  const auto outcome = [](OutcomeStatus status) { return Outcome{1, status, "", std::nullopt}; };
  EXPECT_EQ(same_effect(outcome(OutcomeStatus::Applied), outcome(OutcomeStatus::Unchanged)), true);
  EXPECT_EQ(same_effect(outcome(OutcomeStatus::Refused), outcome(OutcomeStatus::Refused)), true);
  EXPECT_EQ(same_effect(outcome(OutcomeStatus::RolledBack), outcome(OutcomeStatus::Applied)), false);
  EXPECT_EQ(same_effect(outcome(OutcomeStatus::Refused), outcome(OutcomeStatus::Applied)), false);
  EXPECT_EQ(same_effect(outcome(OutcomeStatus::Applied), std::nullopt), std::nullopt);
  EXPECT_EQ(same_effect(outcome(OutcomeStatus::DryRun), outcome(OutcomeStatus::Applied)), true);
  EXPECT_EQ(same_effect(outcome(OutcomeStatus::DryRun), outcome(OutcomeStatus::Refused)), false);
  EXPECT_EQ(same_effect(outcome(OutcomeStatus::DryRun), outcome(OutcomeStatus::RolledBack)), std::nullopt);
  EXPECT_EQ(same_effect(outcome(OutcomeStatus::Refused), outcome(OutcomeStatus::DryRun)), false);
}

TEST(Replay, PaceIsNodeTimeAndARunThatFollowsIsDueAtOnce) {
  Pace slow(2.0);
  EXPECT_EQ(slow.due_s(10, 100), 100);
  EXPECT_EQ(slow.due_s(14, 100.1), 102);
  EXPECT_EQ(slow.due_s(1, 102), 102) << "the next run's clock begins anew";
  EXPECT_EQ(slow.due_s(2, 109), 102.5) << "what is late is caught up";
  Pace fast(std::nullopt);
  EXPECT_EQ(fast.due_s(10, 100), 100);
  EXPECT_EQ(fast.due_s(99, 100.5), 100.5);
}

class CountingMachine : public Machine {
 public:
  const Platform& platform() const override { return platform_; }
  const std::map<std::string, std::string>& missing() const override { return missing_; }
  Result<std::vector<Assignment>> read() override { return std::vector<Assignment>{}; }
  Outcome apply(const Decision& decision, bool dry_run, const std::vector<Assignment>& held) override {
    supposed = held;
    if (refuses) return {decision.seq, OutcomeStatus::Refused, "", 1.0};
    return {decision.seq, dry_run ? OutcomeStatus::DryRun : OutcomeStatus::Applied, "", 1.0};
  }
  Status reconcile() override {
    ++reconciled;
    return Error{ErrorKind::Io, "a group has gone", 0};
  }
  const std::vector<Place>& places() const override { return places_; }
  Status look() override { return done(); }
  Status restore() override { return done(); }
  Decision even_decision() const override { return {}; }
  int reconciled = 0;
  bool refuses = false;
  std::vector<Assignment> supposed;

 private:
  Platform platform_;
  std::map<std::string, std::string> missing_;
  std::vector<Place> places_;
};

TEST(Replay, TakesInWhatWasBornMeanwhileButNotWhenItOnlyLooks) {
  CountingMachine machine;
  RecordedDecision recorded;
  recorded.decision.seq = 5;
  recorded.outcome = Outcome{5, OutcomeStatus::Unchanged, "", std::nullopt};
  const std::vector<Assignment> found;
  std::optional<Supposing> supposing;
  EXPECT_EQ(replay_one(machine, recorded, true, found, supposing).outcome.status, OutcomeStatus::DryRun);
  EXPECT_EQ(machine.reconciled, 0);
  const Replayed one = replay_one(machine, recorded, false, found, supposing);
  EXPECT_EQ(machine.reconciled, 1) << "an error of it is told, the decision is applied";
  EXPECT_EQ(one.outcome.status, OutcomeStatus::Applied);
  EXPECT_EQ(one.agrees, true);
}

TEST(Replay, ALookGoesOnAsIfItsDecisionsHadBeenApplied) {
  CountingMachine machine;
  RecordedDecision recorded;
  recorded.decision.assignments = {{"lc", "0-2", {}, {}, {}, {}}};
  recorded.decision.assignments[0].levers.memory_mib = 512;
  const std::vector<Assignment> found = {{"lc", "0-1", {}, {}, 0xf, {}}, {"be", {}, {}, {}, {}, {}}};
  std::optional<Supposing> supposing;
  machine.refuses = true;
  (void)replay_one(machine, recorded, true, found, supposing);
  EXPECT_FALSE(supposing) << "a refused decision sets nothing";
  machine.refuses = false;
  RecordedDecision same = recorded;
  same.decision.assignments = {found[0]};
  (void)replay_one(machine, same, true, found, supposing);
  EXPECT_TRUE(machine.supposed.empty()) << "nothing was in force by a decision";
  (void)replay_one(machine, recorded, true, found, supposing);
  EXPECT_EQ(machine.supposed, found) << "now it is, though it is what was found";
  std::vector<Assignment> then = found;
  then[0].cpus = "0-2";
  then[0].levers.memory_mib = 512;
  recorded.decision.assignments[0].levers.memory_mib.reset();
  (void)replay_one(machine, recorded, true, found, supposing);
  EXPECT_EQ(machine.supposed, then);
  then[0].levers.memory_mib.reset();
  ASSERT_TRUE(supposing);
  EXPECT_EQ(supposing->held, then) << "what a decision leaves out is given back";
}

}  // namespace
}  // namespace osml
