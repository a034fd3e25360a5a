// Asks the server for a decision: one observation out, one decision in, over a connection that stays open.
#pragma once

#include <optional>
#include <string>

#include "client/http.h"
#include "config/config.h"
#include "domain/types.h"

namespace osml {

// Why there is no decision in this interval; what the loop does about it hangs on the class.
enum class AskFailure {
  Unreachable,  // refused, too slow, broken off: hold, then fall back
  Busy,         // 429, 503: the same, and leave the server in peace for retry_after_s
  Refused,      // 4xx with a reason: the observation or our token is wrong
  Broken,       // an answer that is no decision: HTML, half a document, the wrong seq, 5xx
};

struct AskError {
  AskFailure failure = AskFailure::Unreachable;
  std::string message;
  std::optional<double> retry_after_s;  // wall time
  bool of_question = false;             // the server itself says that it cannot use what it was sent
};

class Answer {
 public:
  Answer(Decision decision) : decision_(std::move(decision)) {}  // NOLINT(google-explicit-constructor)
  Answer(Decision decision, std::string text) : decision_(std::move(decision)), text_(std::move(text)) {}
  Answer(AskError error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return decision_.has_value(); }
  [[nodiscard]] const Decision& operator*() const { return *decision_; }
  [[nodiscard]] const Decision* operator->() const { return &*decision_; }
  // The decision as it came over the wire.
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const AskError& error() const { return error_; }

 private:
  std::optional<Decision> decision_;
  std::string text_;
  AskError error_;
};

// Who decides. An interface, so that the loop is tested without a network.
class DecisionSource {
 public:
  DecisionSource() = default;
  DecisionSource(const DecisionSource&) = delete;
  DecisionSource& operator=(const DecisionSource&) = delete;
  virtual ~DecisionSource() = default;
  virtual Answer ask(const Observation& observation) = 0;
};

class DecisionClient : public DecisionSource {
 public:
  // `token` is empty where the server wants none; see read_token().
  DecisionClient(const ServerConfig& server, std::string token, WhileWaiting meanwhile = {});
  Answer ask(const Observation& observation) override;

 private:
  std::string url_;
  double timeout_s_;
  std::string token_;
  HttpConnection http_;
};

// Where the operator's certificates and key are.
TlsFiles paths_of(const ServerConfig& server);
// Refuses those that others can change, and a key that all users can read.
Status check_tls_files(const ServerConfig& server);
// The token would cross a network in the clear.
bool sends_token_in_the_clear(const ServerConfig& server);

// Text of a token file, whose key in the configuration is `what`, without white space around it. Refuses files that
// others can change or all users can read, and tokens that would break the header.
Result<std::string> read_token_file(const fs::path& path, const std::string& what);
// Text of server.token_file; empty where none is configured.
Result<std::string> read_token(const ServerConfig& server);

}  // namespace osml
