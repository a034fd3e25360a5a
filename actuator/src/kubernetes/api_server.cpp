#include "kubernetes/api_server.h"

#include <poll.h>

#include "client/decision_client.h"
#include "config/trusted_file.h"
#include "kubernetes/bodies.h"

namespace osml {

namespace {

// A node with its images is a few hundred KiB, of which nothing is kept. Some thousand LatencyTargets are as much.
constexpr std::size_t longest_answer = std::size_t{4} << 20U;
constexpr int ms_per_s = 1000;

HttpLimits limits_of(const KubernetesConfig& config, ApiUse use) {
  HttpLimits limits;
  limits.timeout_s = config.timeout_s;
  limits.max_bytes = longest_answer;
  limits.tls.ca = config.ca_file.string();
  limits.keep_body = use == ApiUse::LatencyTargets;
  limits.keep_open = false;
  return limits;
}

ApiResult result_of(long status) {
  if (status >= 200 && status < 300) return ApiResult::Written;
  // A conflict is another writer at the same moment.
  if (status == 409 || status == 429 || status == 503) return ApiResult::Busy;
  return status >= 400 && status < 500 ? ApiResult::Refused : ApiResult::Failed;
}

std::string advice(const KubernetesConfig& config, ApiUse use, long status) {
  if (status >= 300 && status < 400) return "the agent follows no redirect; set kubernetes.url to the API server";
  if (status == 401) return "the API server does not accept the token of " + config.token_file.string();
  if (use == ApiUse::LatencyTargets) {
    if (status == 403) return "allow the token's account to list latencytargets of osml.dev";
    if (status == 404) return "install the custom resource LatencyTarget; annotations of pods go on without it";
    if (status == 410) return "the list changed while it was read";
    return "the agent tries again later";
  }
  if (status == 403) return "allow the token's account to patch nodes/status, and to create and patch events";
  if (status == 404)
    return "check that kubernetes.url is the API server and that it knows the node '" + config.node_name + "'";
  if (status == 409) return "another program wrote at the same moment";
  return "the agent tries again later";
}

}  // namespace

ApiServer::ApiServer(KubernetesConfig config, ApiUse use)
    : config_(std::move(config)), use_(use), upload_(limits_of(config_, use)) {}

Status ApiServer::start(const std::string& method, const std::string& path, std::string body) {
  const auto token = read_token_file(config_.token_file, "kubernetes.token_file");
  if (!token) return token.error();
  if (const auto text = read_trusted(config_.ca_file, "kubernetes.ca_file"); !text) return text.error();
  path_ = path;
  return upload_.start({.url = config_.url + path,
                        .body = std::move(body),
                        .token = *token,
                        .method = method,
                        .content_type = method == "PATCH" ? merge_patch : "application/json"});
}

std::optional<ApiAnswer> ApiServer::progress() {
  auto answer = upload_.progress();
  if (!answer) return std::nullopt;
  return read(std::move(*answer));
}

ApiAnswer ApiServer::wait() {
  // libcurl gives up by itself after timeout_s, so this ends.
  while (true) {
    if (auto answer = progress()) return std::move(*answer);
    pollfd waiting{upload_.fd(), POLLIN, 0};
    (void)::poll(&waiting, 1, ms_per_s);
    if (!upload_.busy()) return {ApiResult::Failed, 0, "nothing is under way"};
  }
}

ApiAnswer ApiServer::read(Result<HttpAnswer> answer) const {
  if (!answer) {
    ApiAnswer none{ApiResult::Unreachable, 0, answer.error().message};
    none.too_long = answer.error().kind == ErrorKind::Capacity;
    return none;
  }
  const long status = (*answer).status;
  const double retry_after_s = (*answer).retry_after_s.value_or(0);
  const ApiResult result = result_of(status);
  if (result == ApiResult::Written) return {result, status, "", 0, std::move(*answer)};
  return {result, status,
          config_.url + path_ + " answered HTTP " + std::to_string(status) + "; " + advice(config_, use_, status),
          retry_after_s};
}

}  // namespace osml
