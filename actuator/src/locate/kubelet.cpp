#include "locate/kubelet.h"

#include "client/decision_client.h"
#include "client/http.h"
#include "config/trusted_file.h"
#include "config/url.h"

namespace osml {

namespace {

// Twice what a full node has, and little enough for the memory limit of the DaemonSet.
constexpr std::size_t longest_list = std::size_t{8} << 20U;

std::string advice(const KubeletConfig& config, long status) {
  if (status == 401) return "the kubelet does not accept the token of " + config.token_file.string();
  if (status == 403) return "allow the token's account to get nodes/pods (before Kubernetes 1.33: nodes/proxy)";
  return "check that kubelet.url is the kubelet's /pods";
}

}  // namespace

// A connection of its own each time: it is asked seldom, and the list shall not stay in memory.
Result<std::vector<Pod>> Kubelet::pods() {
  const auto token = read_token_file(config_.token_file, "kubelet.token_file");
  if (!token) return token.error();
  TlsFiles tls;
  if (config_.ca_file) {
    if (const auto text = read_trusted(*config_.ca_file, "kubelet.ca_file"); !text) return text.error();
    tls.ca = config_.ca_file->string();
  }
  HttpConnection http({.timeout_s = config_.timeout_s, .max_bytes = longest_list, .tls = tls});
  std::string url = config_.url;
  if (config_.server_name) {
    http.connect_to(*config_.server_name, host_of(url));
    url = with_host(url, *config_.server_name);
  }
  const auto answer = http.get(url, *token);
  if (!answer) return answer.error();
  if ((*answer)->status != 200) {
    return Error{
        ErrorKind::Io,
        url + " answered HTTP " + std::to_string((*answer)->status) + "; " + advice(config_, (*answer)->status), 0};
  }
  auto pods = parse_pods((*answer)->body);
  if (!pods) return Error{ErrorKind::Io, url + ": " + pods.error().message + ", got " + describe(**answer), 0};
  return pods;
}

}  // namespace osml
