// The server as it may be: good, refused, silent, slow, HTML, half an answer, busy, mixed up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "client/decision_client.h"
#include "fake_server.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing_support::FakeServer;
using testing_support::http;
using testing_support::without_length;

std::string decision(const std::string& node, int seq) {
  return R"({"node":")" + node + R"(","seq":)" + std::to_string(seq) +
         R"(,"policy":"even","partition":{"regions":[]},"assignments":[]})";
}

Observation observation() {
  Observation observation;
  observation.node = "demo";
  observation.seq = 7;
  return observation;
}

ServerConfig server_at(const std::string& url, double timeout_s, std::optional<fs::path> token_file = {}) {
  ServerConfig server;
  server.url = url;
  server.timeout_s = timeout_s;
  server.token_file = std::move(token_file);
  return server;
}

Answer ask(const std::string& url, double timeout_s = 30.0, const std::string& token = "") {
  DecisionClient client(server_at(url, timeout_s), token);
  return client.ask(observation());
}

TEST(DecisionClient, AnswerIsTheDecision) {
  std::string seen;
  FakeServer server([&seen](const std::string& request) {
    seen = request;
    return http(200, "application/json", decision("demo", 7));
  });
  const Answer answer = ask(server.url(), 30.0, "secret");
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->policy, "even");
  EXPECT_THAT(seen, HasSubstr("POST /v1/decisions HTTP/1.1"));
  EXPECT_THAT(seen, HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(seen, HasSubstr("Authorization: Bearer secret"));
  EXPECT_THAT(seen, HasSubstr("\"seq\":7"));
}

TEST(DecisionClient, TheConnectionStaysOpen) {
  FakeServer server([](const std::string& /*request*/) { return http(200, "application/json", decision("demo", 7)); });
  DecisionClient client(server_at(server.url(), 2.0), "");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client.ask(observation()));
  EXPECT_EQ(server.requests(), 3);
  EXPECT_EQ(server.connections(), 1);
}

TEST(DecisionClient, NobodyListens) {
  const Answer answer = ask("http://127.0.0.1:1");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().failure, AskFailure::Unreachable);
  EXPECT_THAT(answer.error().message, HasSubstr("http://127.0.0.1:1/v1/decisions: "));
}

TEST(DecisionClient, SilentServerCostsTheTimeoutOnly) {
  FakeServer server([](const std::string& /*request*/) { return std::string(); });
  const Answer answer = ask(server.url(), 0.1);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().failure, AskFailure::Unreachable);
  EXPECT_THAT(answer.error().message, HasSubstr("timed out"));
  EXPECT_THAT(answer.error().message, HasSubstr("raise server.timeout_s"));
}

TEST(DecisionClient, HalfAnAnswer) {
  FakeServer server([](const std::string& /*request*/) {
    return std::string("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n{\"node\":");
  });
  const Answer answer = ask(server.url());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().failure, AskFailure::Unreachable);
}

TEST(DecisionClient, HtmlInsteadOfJson) {
  FakeServer server([](const std::string& /*request*/) { return http(200, "text/html", "<html>\nWelcome to nginx"); });
  const Answer answer = ask(server.url());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().failure, AskFailure::Broken);
  EXPECT_THAT(answer.error().message, HasSubstr("text/html beginning with '<html>.Welcome to nginx'"));
}

TEST(DecisionClient, AContentTypeStaysOnItsLine) {
  FakeServer server(
      [](const std::string& /*request*/) { return http(200, "text/\x1b[2J" + std::string(200, 'x'), "welcome"); });
  const std::string message = ask(server.url()).error().message;
  EXPECT_THAT(message, HasSubstr("text/?[2J" + std::string(91, 'x') + "... beginning"));
}

TEST(DecisionClient, RefusalCarriesTheServersWords) {
  FakeServer server([](const std::string& /*request*/) {
    return http(422, "application/json",
                R"({"error":{"code":"unknown_policy","message":"policy 'aqr' is unknown","hint":"known: arq, even"}})");
  });
  const Answer answer = ask(server.url());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().failure, AskFailure::Refused);
  EXPECT_THAT(answer.error().message, HasSubstr("HTTP 422: policy 'aqr' is unknown (known: arq, even)"));
}

TEST(DecisionClient, OnlyTheServerItselfRefusesAQuestion) {
  const std::string own = R"({"error":{"code":"bad","message":"policy_state was tampered with"}})";
  const auto of_question = [](int status, const std::string& type, const std::string& body) {
    FakeServer server([&](const std::string& /*request*/) { return http(status, type, body); });
    return ask(server.url()).error().of_question;
  };
  for (const int status : {400, 413, 422}) {
    EXPECT_TRUE(of_question(status, "application/json", own)) << status;
    EXPECT_FALSE(of_question(status, "text/html", "<html>")) << status << ", of a proxy";
  }
  for (const int status : {401, 403, 408, 500}) EXPECT_FALSE(of_question(status, "application/json", own)) << status;
  EXPECT_FALSE(of_question(404, "text/html", "<html>not found"));
}

TEST(DecisionClient, BusyServerSaysWhenToComeBack) {
  for (const int status : {429, 503}) {
    FakeServer server(
        [status](const std::string& /*request*/) { return http(status, "text/plain", "busy", "Retry-After: 3\r\n"); });
    const Answer answer = ask(server.url());
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().failure, AskFailure::Busy);
    EXPECT_EQ(answer.error().retry_after_s, 3.0);
  }
}

TEST(DecisionClient, RedirectsAreNotFollowed) {
  FakeServer server([](const std::string& /*request*/) {
    return http(307, "text/plain", "", "Location: http://127.0.0.1:1/elsewhere\r\n");
  });
  const Answer answer = ask(server.url());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().failure, AskFailure::Broken);
  EXPECT_THAT(answer.error().message, HasSubstr("the agent does not follow redirects"));
}

TEST(DecisionClient, AnswerToAnotherQuestionIsRefused) {
  for (const auto& [node, seq] : {std::pair<std::string, int>{"demo", 6}, {"other", 7}}) {
    FakeServer server(
        [&](const std::string& /*request*/) { return http(200, "application/json", decision(node, seq)); });
    const Answer answer = ask(server.url());
    ASSERT_FALSE(answer);
    EXPECT_THAT(answer.error().message, HasSubstr("expected node 'demo' seq 7"));
  }
}

TEST(DecisionClient, InvalidDecisionNamesTheField) {
  FakeServer server([](const std::string& /*request*/) { return http(200, "application/json", R"({"node":"demo"})"); });
  const Answer answer = ask(server.url());
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("invalid decision: seq: missing"));
}

TEST(DecisionClient, AnswerLongerThanAMegabyteIsCutOff) {
  for (const bool says_its_length : {true, false}) {
    FakeServer server([&](const std::string& /*request*/) {
      const std::string body(3U << 20U, ' ');
      return says_its_length ? http(200, "application/json", body, "Connection: close\r\n")
                             : without_length("application/json", body);
    });
    const Answer answer = ask(server.url());
    ASSERT_FALSE(answer);
    EXPECT_THAT(answer.error().message, HasSubstr("longer than 1048576 bytes"));
  }
}

TEST(Token, OneWordOfAFileThatNotEverybodyMayWrite) {
  const fs::path path = fs::path(testing::TempDir()) / "client_token";
  std::ofstream(path) << " abc \n";
  ::chmod(path.c_str(), 0600);
  fs::permissions(path, fs::perms(0644));
  EXPECT_FALSE(read_token(server_at("", 1, path))) << "all users can read it";
  fs::permissions(path, fs::perms(0600));
  EXPECT_EQ(*read_token(server_at("", 1, path)), "abc");
  ::chmod(path.c_str(), 0606);
  EXPECT_FALSE(read_token(server_at("", 1, path)));
  ::chmod(path.c_str(), 0600);
  std::ofstream(path) << "a\r\nX-Evil: 1";
  EXPECT_FALSE(read_token(server_at("", 1, path)));
  fs::remove(path);
  EXPECT_FALSE(read_token(server_at("", 1, path)));
  EXPECT_EQ(*read_token(server_at("", 1)), "");
}

TEST(DecisionClient, ShowsLittleOfAServerThatTalksMuch) {
  std::string reasons;
  for (int i = 0; i < 900; ++i)
    reasons += std::string(i > 0 ? "," : "") + R"({"text": ")" + std::string(1000, 'x') + R"(\n\u001b[2J"})";
  const FakeServer server([&](const std::string& /*request*/) {
    return http(200, "application/json",
                R"({"node": "demo", "seq": 7, "policy": "a\nb", "partition": {"regions": []},
        "assignments": [], "reasons": [)" +
                    reasons + "]}");
  });
  const Answer answer = ask(server.url());
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->policy, "a?b");
  ASSERT_EQ(answer->reasons.size(), 25U);
  EXPECT_EQ(answer->reasons.front().text, std::string(300, 'x') + "...");
  EXPECT_EQ(answer->reasons.back().text, "and 876 more reasons");
}

TEST(DecisionClient, ATokenInTheClearIsNoticed) {
  ServerConfig server;
  server.token_file = "/etc/osml/token";
  for (const char* url : {"http://10.0.0.1:8080", "http://decide.example"}) {
    server.url = url;
    EXPECT_TRUE(sends_token_in_the_clear(server)) << url;
  }
  for (const char* url : {"http://127.0.0.1:8080", "http://localhost", "http://[::1]:80", "https://decide.example"}) {
    server.url = url;
    EXPECT_FALSE(sends_token_in_the_clear(server)) << url;
  }
}

}  // namespace
}  // namespace osml
