#include "apply/transaction.h"

#include <gtest/gtest.h>

namespace osml {
namespace {

// A value in memory that fails where it is told to.
class Memory : public Knob {
 public:
  explicit Memory(std::string initial) : value(std::move(initial)) {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Cpus; }
  [[nodiscard]] std::string_view backend() const override { return "memory"; }
  Status probe() override { return done(); }
  Result<std::string> read() override { return lies ? std::string("7") : value; }
  Status write(const std::string& wanted) override {
    if (wanted == refuses) return Error{ErrorKind::Io, "no", 22};
    value = wanted;
    return done();
  }
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override { return read == wanted; }
  Result<std::string> snapshot() override { return value; }
  Status restore(const std::string& snapshot) override {
    if (stuck) return Error{ErrorKind::Io, "stuck", 5};
    value = snapshot;
    return done();
  }

  std::string value, refuses;
  bool lies = false;   // reads back something else
  bool stuck = false;  // cannot be restored
};

class TransactionTest : public testing::Test {
 protected:
  Execution run() {
    const std::vector<Prepared> changes = {{{"a", Aspect::Cpus, a_.value, "0-3"}, &a_, a_.value},
                                           {{"b", Aspect::Cpus, b_.value, "4-5"}, &b_, b_.value}};
    return execute(changes, {{1, "5"}, {0, "0-3"}, {1, "4-5"}}, crash_);
  }

  Memory a_{"0-1"};
  Memory b_{"5-7"};
  CrashPoint crash_;
};

TEST_F(TransactionTest, AppliesEveryStep) {
  EXPECT_EQ(run().ending, Ending::Applied);
  EXPECT_EQ(a_.value, "0-3");
  EXPECT_EQ(b_.value, "4-5");
}

TEST_F(TransactionTest, AStepThatFailsUndoesThoseBefore) {
  b_.refuses = "4-5";
  const Execution execution = run();
  EXPECT_EQ(execution.ending, Ending::RolledBack);
  EXPECT_NE(execution.message.find("b: cpus 5-7 -> 4-5 failed: no"), std::string::npos) << execution.message;
  EXPECT_EQ(a_.value, "0-1");
  EXPECT_EQ(b_.value, "5-7");
}

TEST_F(TransactionTest, AValueThatReadsBackOtherwiseIsAFailure) {
  a_.lies = true;
  const Execution execution = run();
  EXPECT_EQ(execution.ending, Ending::RolledBack);
  EXPECT_NE(execution.message.find("the kernel reports '7'"), std::string::npos) << execution.message;
  EXPECT_EQ(b_.value, "5-7");
}

TEST_F(TransactionTest, SaysWhatCouldNotBeUndoneAndUndoesTheRest) {
  b_.refuses = "4-5";
  a_.stuck = true;
  const Execution execution = run();
  EXPECT_EQ(execution.ending, Ending::Failed);
  EXPECT_NE(execution.message.find("could not be undone: a: cpus: stuck"), std::string::npos) << execution.message;
  EXPECT_EQ(b_.value, "5-7");
}

}  // namespace
}  // namespace osml
