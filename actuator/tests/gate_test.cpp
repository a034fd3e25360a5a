// Questions about containers: their form, and the two sockets that they go over.
#include "gate/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "gate/gate_client.h"
#include "gate/local_socket.h"
#include "scratch_tree.h"

namespace osml {
namespace {

using testing::HasSubstr;
using Stage = ContainerQuestion::Stage;

const std::string an_id(64, 'a');

TEST(GateForms, AreReadAsTheyWereWritten) {
  const ContainerQuestion question{7, Stage::Start, "0b1e-2", "app \"x\" \xc3\xa4", an_id, "0-1"};
  const auto read = parse_question(text_of(question));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, question);
  for (const ContainerAnswer& answer : {ContainerAnswer{7, "shop.web", "0-3"}, ContainerAnswer{8, "", ""}}) {
    const auto back = parse_from_agent(text_of(answer));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->answer, answer);
  }
  const CpusInForce cpus = {{"web", "0-3"}, {"job", "4"}};
  const auto back = parse_from_agent(text_of(cpus));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->in_force, cpus);
}

TEST(GateForms, WhatIsNoQuestionIsRefusedByItsField) {
  const std::string rest = R"(,"container":"app","id":")" + an_id + R"("})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "one JSON object"},
      {"[1]", "one JSON object"},
      {R"({"number":1,"stage":"start","pod":"../../x")" + rest, "pod"},
      {R"({"number":-1,"stage":"start","pod":"1a")" + rest, "number"},
      {R"({"number":1,"stage":"stop","pod":"1a")" + rest, "stage"},
      {R"({"number":1,"stage":"start","pod":"1a","container":"","id":")" + an_id + "\"}", "container"},
      {R"({"number":1,"stage":"start","pod":"1a","container":"app","id":"ABC"})", "id"},
      {R"({"number":1,"stage":"start","pod":"1a","more":1)" + rest, "more"}};
  for (const auto& [text, field] : cases) {
    const auto read = parse_question(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message, HasSubstr(field));
  }
  EXPECT_FALSE(parse_from_agent(R"({"in_force":{"web":"x"}})"));
  EXPECT_FALSE(parse_from_agent(R"({"in_force":3})"));
  EXPECT_FALSE(parse_from_agent(R"({"number":1,"cpus":"3-"})"));
}

class GateSockets : public testing::Test {
 protected:
  GateSockets() { fs::permissions(tree_.root(), fs::perms::owner_all); }
  testing_support::ScratchTree tree_{testing_support::in_memory()};
};

TEST_F(GateSockets, AQuestionIsAnsweredAndNewsAreKept) {
  auto gate = Gate::open(tree_.root());
  ASSERT_TRUE(gate) << gate.error().message;
  auto client = GateClient::open(tree_.root(), 10);
  ASSERT_TRUE(client) << client.error().message;
  struct stat there {};
  ASSERT_EQ(::lstat((tree_ / "containers.sock").c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 0777U, 0600U);
  std::thread agent([&] {
    std::vector<ContainerQuestion> questions;
    while (questions.empty()) questions = (*gate)->take();
    (*gate)->tell({{"web", "1"}});
    (*gate)->answer({questions[0].number + 5, "late", ""});
    (*gate)->answer({questions[0].number, "web", "2-3"});
  });
  const auto answer = (*client)->ask({0, Stage::Look, "1a", "app", an_id, {}});
  agent.join();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->cpus, "2-3");
  EXPECT_EQ((*client)->told(), (CpusInForce{{"web", "1"}}));
  EXPECT_EQ((*client)->told(), std::nullopt);
}

TEST_F(GateSockets, OnlyNewsAreTold) {
  auto gate = Gate::open(tree_.root());
  auto client = GateClient::open(tree_.root(), 1);
  ASSERT_TRUE(gate && client);
  (*gate)->tell({{"web", "1"}});
  EXPECT_TRUE((*client)->told());
  (*gate)->tell({{"web", "1"}});
  EXPECT_FALSE((*client)->told());
  (*gate)->tell({});
  EXPECT_EQ((*client)->told(), CpusInForce{});
}

TEST_F(GateSockets, AnAgentThatIsAwayOrSilentCostsLittleTime) {
  auto client = GateClient::open(tree_.root(), 0.05);
  ASSERT_TRUE(client);
  EXPECT_FALSE((*client)->ask({0, Stage::Look, "1a", "app", an_id, {}}));
  auto gate = Gate::open(tree_.root());
  ASSERT_TRUE(gate);
  EXPECT_FALSE((*client)->ask({0, Stage::Look, "1a", "app", an_id, {}}));
}

TEST_F(GateSockets, NonsenseIsForgottenAndTheNextQuestionIsHeard) {
  auto gate = Gate::open(tree_.root());
  ASSERT_TRUE(gate);
  const auto sender = bind_private(tree_ / "other.sock");
  ASSERT_TRUE(sender);
  for (const std::string& text : {std::string("x"), std::string(60'000, '['), std::string()}) {
    ASSERT_TRUE(send_datagram(*sender, tree_ / gate_socket, text));
  }
  ASSERT_TRUE(
      send_datagram(*sender, tree_ / gate_socket, text_of(ContainerQuestion{1, Stage::Look, "1a", "app", an_id, {}})));
  EXPECT_EQ((*gate)->take().size(), 1);
}

TEST_F(GateSockets, OneOfAKindAndASocketThatACrashLeftIsReplaced) {
  auto first = GateClient::open(tree_.root(), 1);
  ASSERT_TRUE(first);
  const auto second = GateClient::open(tree_.root(), 1);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Busy);
  first->reset();
  { const auto left = bind_private(tree_ / plugin_socket); }  // closed, and its file stays
  EXPECT_TRUE(GateClient::open(tree_.root(), 1));
}

TEST_F(GateSockets, WhereOthersMayWriteNothingIsOpened) {
  fs::permissions(tree_.root(), fs::perms::all);
  const auto gate = Gate::open(tree_.root());
  ASSERT_FALSE(gate);
  EXPECT_THAT(gate.error().message, HasSubstr("state_dir"));
}

}  // namespace
}  // namespace osml
