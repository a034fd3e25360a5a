// What the agent tells the Kubernetes cluster of its node.
#include "config/sections.h"
#include "config/url.h"
#include "domain/forms.h"

namespace osml {

namespace {

constexpr NumberRange api_timeout_range{0, 10, true, "seconds above 0 and at most 10"};
constexpr NumberRange heartbeat_range{60, 3600, false, "seconds from 60 to 3600"};

void read_api_url(YamlSection& section, std::string& url) {
  const auto given = section.text("url");
  if (!given) return;
  url = *given;
  while (url.size() > 1 && url.back() == '/') url.pop_back();
  if (const auto error = base_url_error(url, "use kubernetes.token_file")) {
    section.problem("url", "'" + without_credentials(*given) + "', " + *error);
  } else if (!url.starts_with("https://")) {
    section.wrong("url", "an https address, since the agent sends its token there");
  }
}

}  // namespace

KubernetesConfig read_kubernetes(const YAML::Node& yaml, const std::string& node, const fs::path& base,
                                 Problems& problems) {
  YamlSection section(
      yaml, "kubernetes", problems,
      {"condition", "events", "batch_cpu", "node_name", "url", "timeout_s", "token_file", "ca_file", "heartbeat_s"});
  KubernetesConfig kubernetes;
  const auto is_on = [&](const char* key) { return section.choice(key, {"on", "off"}).value_or("off") == "on"; };
  kubernetes.condition = is_on("condition");
  kubernetes.events = is_on("events");
  kubernetes.batch_cpu = is_on("batch_cpu");
  const auto name = section.text("node_name");
  kubernetes.node_name = name.value_or(node);
  if ((name || kubernetes.on()) && !is_name_in_dns(kubernetes.node_name)) {
    section.problem("node_name",
                    "'" + kubernetes.node_name + "', expected the name of this node in the cluster, such as node-17");
  }
  read_api_url(section, kubernetes.url);
  kubernetes.timeout_s = section.number("timeout_s", api_timeout_range).value_or(kubernetes.timeout_s);
  kubernetes.token_file = section.file("token_file", base).value_or(kubernetes.token_file);
  kubernetes.ca_file = section.file("ca_file", base).value_or(kubernetes.ca_file);
  kubernetes.heartbeat_s = section.number("heartbeat_s", heartbeat_range).value_or(kubernetes.heartbeat_s);
  return kubernetes;
}

}  // namespace osml
