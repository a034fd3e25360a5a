#include "locate/annotations.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/number.h"
#include "base/printable.h"
#include "config/nearest.h"
#include "domain/forms.h"

namespace osml {

namespace {

constexpr std::size_t longest_shown = 40;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Annotations, and where a LatencyTarget has the same.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> known_asks = {
    {{"target-p99-ms", "targetP99Ms"},
     {"class", "class"},
     {"service", "service"},
     {"container", "container"},
     {"latency", "latency"},
     {"latency-metric", "latency.prometheus.metric"},
     {"latency-labels", "latency.prometheus.labels"},
     {"latency-unit", "latency.prometheus.unit"}}};

// What is asked for one pod; the first mistake counts.
class Asked {
 public:
  // `target`: null = the pod's annotations.
  Asked(const Pod& pod, const LatencyTarget* target)
      : values_(target == nullptr ? &pod.asks : &target->asks), target_(target) {}

  [[nodiscard]] const std::map<std::string, std::string>& values() const { return *values_; }
  [[nodiscard]] bool has(const char* key) const { return values_->contains(key); }
  [[nodiscard]] std::string text(const char* key, const char* without) const {
    const auto found = values_->find(key);
    return found == values_->end() ? without : found->second;
  }
  [[nodiscard]] std::string name_of(std::string_view key) const {
    return target_ == nullptr ? annotation_of(key) : field_of(key);
  }
  void refuse(std::string_view key, const std::string& expected) {
    const auto found = values_->find(std::string(key));
    const std::string value = found == values_->end() ? "missing" : "'" + printable(found->second, longest_shown) + "'";
    say(place_of(key) + ": " + value + ", expected " + expected);
  }
  void say(const std::string& sentence) {
    if (why_.empty()) why_ = sentence;
  }
  // For the beginning of a sentence.
  [[nodiscard]] std::string place_of(std::string_view key) const {
    return (target_ == nullptr ? "annotation " : std::string(target_kind) + " " + target_->full_name() + ": ") +
           name_of(key);
  }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  const std::map<std::string, std::string>* values_;
  const LatencyTarget* target_;
  std::string why_;
};

// Keys of a later version too: half of what somebody asked for is not what was asked for. One mistake is enough, and
// looking for what was meant costs time that a pod with many keys shall not have.
void check_keys(Asked& asked) {
  for (const auto& [key, value] : asked.values()) {
    const std::string& given = key;
    if (std::none_of(known_asks.begin(), known_asks.end(), [&](const auto& one) { return one.first == given; })) {
      std::vector<std::string_view> known;
      known.reserve(known_asks.size());
      for (const auto& one : known_asks) known.push_back(one.first);
      const auto meant = nearest(std::string_view(key).substr(0, longest_shown), known);
      return asked.say(asked.place_of(key) + " is not known to this version of the agent; " +
                       (meant ? "did you mean " + asked.name_of(*meant) + "?" : "remove it"));
    }
    if (value.size() > longest_pod_text) {
      return asked.refuse(key, "at most " + std::to_string(longest_pod_text) + " bytes");
    }
  }
}

// A Deployment's pods change names; the ReplicaSet between has the name and a hash, which the pod has as a label. So
// has that of a Rollout (Argo), with a label of its own.
std::string own_name(const Pod& pod) {
  const bool numbered = pod.owner_kind == "StatefulSet";  // each pod of it is somebody
  if (pod.owner_name.empty() || numbered || pod.owner_kind == "Node") return pod.name;
  if (pod.owner_kind != "ReplicaSet") return pod.owner_name;
  for (const char* label : {"pod-template-hash", "rollouts-pod-template-hash"}) {
    const auto hash = pod.labels.find(label);
    if (hash == pod.labels.end() || hash->second.empty() || !pod.owner_name.ends_with("-" + hash->second)) continue;
    return pod.owner_name.substr(0, pod.owner_name.size() - hash->second.size() - 1);
  }
  return pod.owner_name;
}

std::string name_of(const Pod& pod, const std::string& without, Asked& asked) {
  const std::string own = asked.text("service", without.c_str());
  std::string name = pod.name_space + "." + own;
  if (!is_namespace(pod.name_space)) asked.say("its namespace has no form of a namespace");
  if (is_name(own) && is_name(name)) return name;
  asked.refuse("service",
               "letters, digits, '_', '.' or '-', and with the namespace and a dot at most 63 in all; set it");
  return {};
}

void read_goal(const DiscoverConfig& discover, Asked& asked, Service& spec) {
  spec.kind = asked.text("class", "lc");
  if (spec.kind != "lc" && spec.kind != "be") asked.refuse("class", "lc (latency-critical) or be (best-effort)");
  if (spec.kind == "be") {
    if (asked.has("target-p99-ms"))
      asked.refuse("target-p99-ms", "no target for a job (" + asked.name_of("class") + ": be)");
    return;
  }
  const std::string range =
      "milliseconds from " + format_number(discover.min_target_ms) + " to " + format_number(discover.max_target_ms);
  spec.target_ms = parse_double(asked.text("target-p99-ms", ""));
  // written so that NaN fails
  const bool fits =
      spec.target_ms && *spec.target_ms >= discover.min_target_ms && *spec.target_ms <= discover.max_target_ms;
  if (!fits) asked.refuse("target-p99-ms", range + ", which the operator of this node allows");
}

// The pod's own: of this node, no loopback, and not what every host answers at (169.254.169.254).
std::optional<std::string> address_in_url(const Pod& pod) {
  if (pod.host_network || pod.ip == pod.host_ip) return std::nullopt;
  if (in_addr v4{}; ::inet_pton(AF_INET, pod.ip.c_str(), &v4) == 1) {
    const std::uint32_t address = ntohl(v4.s_addr);
    const std::uint32_t first = address >> 24U;
    const bool link_local = address >> 16U == 0xa9feU;
    if (first == 0 || first == 127 || first >= 224 || link_local) return std::nullopt;
    return pod.ip;
  }
  if (in6_addr v6{}; ::inet_pton(AF_INET6, pod.ip.c_str(), &v6) == 1) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-union-access): so has the system declared it
    const auto* bytes = v6.s6_addr;
    const bool global = (bytes[0] & 0xe0U) == 0x20U || (bytes[0] & 0xfeU) == 0xfcU;  // 2000::/3 and fc00::/7
    if (global) return "[" + pod.ip + "]";
  }
  return std::nullopt;
}

std::optional<std::string> url_of(const Pod& pod, std::string_view place, Asked& asked) {
  const std::size_t slash = std::min(place.find('/'), place.size());
  const auto port = parse_unsigned(place.substr(0, slash));
  const std::string_view path = place.substr(slash);
  constexpr unsigned long long last_port = 65535;
  if (!port || *port == 0 || *port > last_port || !is_metrics_path(path)) {
    asked.refuse("latency", "datagram, or prometheus:PORT/PATH such as prometheus:9102/metrics");
    return std::nullopt;
  }
  const auto host = address_in_url(pod);
  if (!host) {
    asked.say(asked.place_of("latency") +
              ": the pod has no address of its own (hostNetwork, or none yet), expected one; use datagram");
    return std::nullopt;
  }
  return "http://" + *host + ":" + std::to_string(*port) + std::string(path);
}

bool is_metric(std::string_view text) {
  return !text.empty() && !is_digit(text.front()) && std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == ':';
  });
}

// "handler=/search,method=GET".
void read_labels(std::string_view text, Asked& asked, PrometheusSource& source) {
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, comma);
    const std::size_t equals = std::min(one.find('='), one.size());
    const bool printed = std::all_of(one.begin(), one.end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (!is_metric(one.substr(0, equals)) || equals == one.size() || !printed) {
      asked.refuse("latency-labels", "labels of the metric, such as handler=/search,method=GET");
      return;
    }
    source.labels[std::string(one.substr(0, equals))] = std::string(one.substr(equals + 1));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
}

void read_prometheus(const Pod& pod, std::string_view place, Asked& asked, LatencySource& latency) {
  PrometheusSource source;
  source.of_pod = true;
  source.url = url_of(pod, place, asked).value_or("");
  source.metric = asked.text("latency-metric", "");
  if (!is_metric(source.metric)) asked.refuse("latency-metric", "the name of a histogram, without _bucket");
  read_labels(asked.text("latency-labels", ""), asked, source);
  const std::string unit = asked.text("latency-unit", "seconds");
  if (unit != "seconds" && unit != "milliseconds") asked.refuse("latency-unit", "seconds or milliseconds");
  source.unit_ms = unit == "milliseconds" ? 1.0 : 1000.0;
  latency.prometheus = source;
}

std::optional<LatencySource> latency_of(const Pod& pod, const DiscoverConfig& discover, const std::string& service,
                                        Asked& asked) {
  constexpr std::string_view prometheus = "prometheus:";
  const std::string wanted = asked.text("latency", "");
  LatencySource latency;
  if (wanted.starts_with(prometheus)) {
    read_prometheus(pod, std::string_view(wanted).substr(prometheus.size()), asked, latency);
    return latency;
  }
  if (asked.has("latency") && wanted != "datagram") {
    asked.refuse("latency", "datagram, or prometheus:PORT/PATH such as prometheus:9102/metrics");
  } else if (asked.has("latency") && !discover.datagram_directory) {
    asked.refuse("latency", "prometheus:PORT/PATH, because the operator sets no kubelet.discover.datagram_directory");
  }
  for (const char* key : {"latency-metric", "latency-labels", "latency-unit"}) {
    if (asked.has(key)) asked.refuse(key, "none without " + asked.name_of("latency") + ": prometheus:PORT/PATH");
  }
  if (!asked.why().empty() || !asked.has("latency")) return std::nullopt;
  latency.datagram = *discover.datagram_directory / (service + ".sock");
  latency.datagram_mode = discover.datagram_mode;
  return latency;
}

// `name`: where none is asked for.
Result<ServiceConfig> service_of(const Pod& pod, const DiscoverConfig& discover, Asked asked, const std::string& name,
                                 const std::string& source) {
  check_keys(asked);
  ServiceConfig service;
  service.spec = discover.spec;
  service.limits = discover.limits;
  service.spec.name = name_of(pod, name, asked);
  service.spec.source = source;
  read_goal(discover, asked, service.spec);
  service.match.pod = PodMatch{pod.name_space, pod.name, {}, asked.text("container", "")};
  if (asked.has("container") && pod.find(service.match.pod->container) == nullptr) {
    asked.refuse("container", "the name of a container of the pod");
  }
  service.latency = latency_of(pod, discover, service.spec.name, asked);
  service.watched = service.spec.kind == "lc" && !service.latency;
  if (!asked.why().empty()) return Error{ErrorKind::Input, asked.why(), 0};
  return service;
}

}  // namespace

bool may_ask(const DiscoverConfig& discover, const std::string& name_space) {
  return std::any_of(discover.namespaces.begin(), discover.namespaces.end(),
                     [&](const std::string& one) { return one == "*" || one == name_space; });
}

bool is_metrics_path(std::string_view text) {
  return text.starts_with('/') && std::all_of(text.begin(), text.end(), [](char c) {
           return is_letter(c) || is_digit(c) || std::string_view("/._~-").find(c) != std::string_view::npos;
         });
}

std::string annotation_of(std::string_view key) { return "osml.dev/" + printable(key, longest_shown); }

std::string field_of(std::string_view key) {
  const auto* const found =
      std::find_if(known_asks.begin(), known_asks.end(), [&](const auto& one) { return one.first == key; });
  return "spec." + (found == known_asks.end() ? printable(key, longest_shown) : std::string(found->second));
}

bool is_of_target(const ServiceConfig& service) {
  return service.spec.source.value_or("").starts_with(std::string(target_kind) + " ");
}

Result<ServiceConfig> service_of(const Pod& pod, const DiscoverConfig& discover) {
  return service_of(pod, discover, Asked(pod, nullptr), own_name(pod), "pod " + pod.full_name());
}

Result<ServiceConfig> service_of(const Pod& pod, const LatencyTarget& target, const DiscoverConfig& discover) {
  return service_of(pod, discover, Asked(pod, &target), target.name,
                    std::string(target_kind) + " " + target.full_name());
}

}  // namespace osml
