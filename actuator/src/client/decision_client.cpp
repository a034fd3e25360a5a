#include "client/decision_client.h"

#include <algorithm>
#include <cerrno>

#include "base/number.h"
#include "base/printable.h"
#include "base/trust.h"
#include "client/server_words.h"
#include "config/trusted_file.h"
#include "domain/json.h"

namespace osml {

namespace {

constexpr std::size_t longest_complaint = 500;
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
  const auto words = server_message(answer.body);
  const bool of_question = answer.status == 400 || answer.status == 413 || answer.status == 422;
  error.of_question = of_question && words;
  if (busy) error.retry_after_s = answer.retry_after_s;
  error.message = url + " answered HTTP " + std::to_string(answer.status) + ": ";
  if (answer.status >= 300 && answer.status < 400) {
    error.message += "the agent does not follow redirects; set server.url to the final address";
  } else {
    error.message += words.value_or("expected JSON, got " + describe(answer) + "; " + is_it_the_server);
  }
  return error;
}

// What the server says goes into log and audit log. It may say little and on one line, so that it can neither fill a
// disk nor push out what stands there, nor write lines that are not its own.
void tame(Decision& decision) {
  constexpr std::size_t most_reasons = 24;
  constexpr std::size_t longest_reason = 300;
  constexpr std::size_t longest_name = 100;
  decision.policy = printable(decision.policy, longest_name);
  if (decision.infeasible) decision.infeasible = printable(*decision.infeasible, longest_reason);
  if (decision.reasons.size() > most_reasons) {
    const std::size_t more = decision.reasons.size() - most_reasons;
    decision.reasons.resize(most_reasons);
    decision.reasons.push_back({"and " + std::to_string(more) + " more reasons", std::nullopt});
  }
  for (Reason& reason : decision.reasons) {
    reason.text = printable(reason.text, longest_reason);
    if (reason.service) reason.service = printable(*reason.service, longest_name);
  }
}

bool is_json(const HttpAnswer& answer) {
  return answer.content_type.empty() || answer.content_type.find("json") != std::string::npos;
}

}  // namespace

TlsFiles paths_of(const ServerConfig& server) {
  const auto text = [](const std::optional<fs::path>& path) { return path ? path->string() : std::string(); };
  return {text(server.ca_file), text(server.client_cert_file), text(server.client_key_file)};
}

Status check_tls_files(const ServerConfig& server) {
  const std::pair<const std::optional<fs::path>&, const char*> files[] = {
      {server.ca_file, "server.ca_file"},
      {server.client_cert_file, "server.client_cert_file"},
      {server.client_key_file, "server.client_key_file"}};
  for (const auto& [path, name] : files) {
    if (!path) continue;
    if (const auto text = read_trusted(*path, name); !text) return text.error();
  }
  return server.client_key_file ? refuse_readable(*server.client_key_file, "server.client_key_file") : done();
}

bool sends_token_in_the_clear(const ServerConfig& server) {
  if (!server.token_file || !server.url.starts_with("http://")) return false;
  const std::string_view rest = std::string_view(server.url).substr(std::string_view("http://").size());
  const std::string_view host = rest.substr(0, rest.find_first_of(":/"));
  return host != "localhost" && !host.starts_with("127.") && !rest.starts_with("[::1]");
}

DecisionClient::DecisionClient(const ServerConfig& server, std::string token, WhileWaiting meanwhile)
    : url_(server.url + "/v1/decisions"),
      timeout_s_(server.timeout_s),
      token_(std::move(token)),
      http_({.timeout_s = server.timeout_s, .tls = paths_of(server), .meanwhile = std::move(meanwhile)}) {}

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
    const std::string why = printable(decision.error().message, longest_complaint);
    return AskError{AskFailure::Broken, url_ + " sent an invalid decision: " + why, std::nullopt};
  }
  // An answer to another question, from a cache or a mixed-up proxy, must never be applied.
  if (decision->seq != observation.seq || decision->node != observation.node) {
    return AskError{AskFailure::Broken,
                    url_ + " answered for node '" + decision->node + "' seq " + std::to_string(decision->seq) +
                        ", expected node '" + observation.node + "' seq " + std::to_string(observation.seq),
                    std::nullopt};
  }
  tame(*decision);
  return {std::move(decision).value(), answer.body};
}

Result<std::string> read_token_file(const fs::path& path, const std::string& what) {
  const auto text = read_trusted(path, what);
  if (!text) return text.error();
  if (Status secret = refuse_readable(path, what); !secret) return secret.error();
  std::string token(trim(*text));
  const bool printable = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (token.empty() || !printable) {
    return Error{ErrorKind::Input,
                 what + " " + path.string() + ": expected one token of printable characters without spaces"};
  }
  return token;
}

Result<std::string> read_token(const ServerConfig& server) {
  return server.token_file ? read_token_file(*server.token_file, "server.token_file") : std::string();
}

}  // namespace osml
