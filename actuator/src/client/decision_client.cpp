#include "client/decision_client.h"

#include <algorithm>
#include <cerrno>

#include "base/number.h"
#include "client/server_words.h"
#include "config/trusted_file.h"
#include "domain/json.h"

namespace osml {

namespace {

constexpr const char* is_it_the_server = "check that server.url is the address of the osml server";

// Nothing came back, and what the operator can do about it.
AskError no_answer(const Error& error, double timeout_s) {
  const std::string hint =
      error.code == ETIMEDOUT
          ? "check server.url; if the server is slow, raise server.timeout_s (now " + format_number(timeout_s) + " s)"
          : "check server.url, and that the osml server runs there";
  return {AskFailure::Unreachable, error.message + "; " + hint, std::nullopt};
}

AskError failed_status(const HttpAnswer& answer, const std::string& url) {
  AskError error;
  const bool busy = answer.status == 429 || answer.status == 503;
  const bool refused = answer.status >= 400 && answer.status < 500;
  error.failure = busy ? AskFailure::Busy : refused ? AskFailure::Refused : AskFailure::Broken;
  if (busy) error.retry_after_s = answer.retry_after_s;
  error.message = url + " answered HTTP " + std::to_string(answer.status) + ": ";
  if (answer.status >= 300 && answer.status < 400) {
    error.message += "the agent does not follow redirects; set server.url to the final address";
  } else {
    error.message +=
        server_message(answer.body).value_or("expected JSON, got " + describe(answer) + "; " + is_it_the_server);
  }
  return error;
}

bool is_json(const HttpAnswer& answer) {
  return answer.content_type.empty() || answer.content_type.find("json") != std::string::npos;
}

}  // namespace

DecisionClient::DecisionClient(const ServerConfig& server, std::string token)
    : url_(server.url + "/v1/decisions"),
      timeout_s_(server.timeout_s),
      token_(std::move(token)),
      http_({.timeout_s = server.timeout_s}) {}

Answer DecisionClient::ask(const Observation& observation) {
  const auto response = http_.post_json(url_, dump(observation), token_);
  if (!response) return no_answer(response.error(), timeout_s_);
  const HttpAnswer& answer = **response;
  if (answer.status != 200) return failed_status(answer, url_);
  if (!is_json(answer)) {
    return AskError{
        AskFailure::Broken,
        url_ + " answered " + describe(answer) + ", expected a decision as application/json; " + is_it_the_server,
        std::nullopt};
  }
  auto decision = parse_decision(answer.body);
  if (!decision) {
    return AskError{AskFailure::Broken, url_ + " sent an invalid decision: " + decision.error().message, std::nullopt};
  }
  // An answer to another question, from a cache or a mixed-up proxy, must never be applied.
  if (decision->seq != observation.seq || decision->node != observation.node) {
    return AskError{AskFailure::Broken,
                    url_ + " answered for node '" + decision->node + "' seq " + std::to_string(decision->seq) +
                        ", expected node '" + observation.node + "' seq " + std::to_string(observation.seq),
                    std::nullopt};
  }
  return {std::move(decision).value(), answer.body};
}

Result<std::string> read_token(const ServerConfig& server) {
  if (!server.token_file) return std::string();
  const auto text = read_trusted(*server.token_file, "server.token_file");
  if (!text) return text.error();
  std::string token(trim(*text));
  const bool printable = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (token.empty() || !printable) {
    return Error{ErrorKind::Input, "server.token_file " + server.token_file->string() +
                                       ": expected one token of printable characters without spaces"};
  }
  return token;
}

}  // namespace osml
