#include "locate/pod_list.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/number.h"
#include "domain/forms.h"

namespace osml {

namespace {

using Json = nlohmann::json;

constexpr std::size_t most_of_a_pod = 128;              // labels, containers
constexpr std::size_t longest_text = longest_pod_text;  // a key of a label with its prefix has as many
constexpr std::string_view prefix_of_ours = "osml.dev/";
constexpr const char* hash_of_static_pod = "kubernetes.io/config.hash";

// The list of a full node has megabytes, most of which nobody needs: what is not named here is dropped while reading.
bool is_wanted(int depth, const std::string& key) {
  static const std::map<int, std::set<std::string>> wanted = {
      {1, {"kind", "items"}},
      {3, {"metadata", "spec", "status"}},
      {4,
       {"name", "namespace", "uid", "labels", "annotations", "deletionTimestamp", "ownerReferences", "containers",
        "initContainers", "hostNetwork", "phase", "qosClass", "podIP", "hostIP", "containerStatuses",
        "initContainerStatuses"}},
      {6, {"name", "kind", "controller", "resources", "containerID", "state"}},
      {7, {"requests", "running"}},
      {8, {"cpu"}},
  };
  if (depth == 5) return key.size() <= longest_text;  // labels and annotations
  const auto level = wanted.find(depth);
  return level != wanted.end() && level->second.contains(key);
}

const Json& at(const Json& value, const char* key) {
  static const Json nothing;
  const auto found = value.is_object() ? value.find(key) : value.end();
  return value.is_object() && found != value.end() ? *found : nothing;
}

std::string text_of(const Json& value) {
  const auto* text = value.get_ptr<const std::string*>();
  return text != nullptr && text->size() <= longest_text ? *text : std::string();
}

std::string uid_of(const Json& value) {
  std::string uid = text_of(value);
  return is_pod_uid(uid) ? uid : std::string();
}

// "containerd://0123abcd..."; the same.
std::string container_id(const Json& value) {
  const std::string text = text_of(value);
  const std::size_t at = text.find("://");
  const std::string id = at == std::string::npos ? std::string() : text.substr(at + 3);
  return is_container_id(id) ? id : std::string();
}

// "2" and "2000m" are whole CPUs, "1500m" is not.
unsigned whole_cpus(const Json& value) {
  std::string text = text_of(value);
  const bool milli = text.ends_with('m');
  if (milli) text.pop_back();
  const auto number = parse_unsigned(text);
  constexpr unsigned long long most = 1'000'000;
  constexpr unsigned per_cpu = 1000;
  if (!number || *number > most || (milli && *number % per_cpu != 0)) return 0;
  return static_cast<unsigned>(milli ? *number / per_cpu : *number);
}

std::map<std::string, std::string> labels_of(const Json& value) {
  std::map<std::string, std::string> labels;
  if (!value.is_object()) return labels;
  for (const auto& item : value.items()) {
    if (labels.size() >= most_of_a_pod) break;
    if (item.value().is_string()) labels[item.key()] = text_of(item.value());
  }
  return labels;
}

// What is no text is as good as an empty one: its reader refuses both.
std::map<std::string, std::string> asks_of(const Json& annotations) {
  std::map<std::string, std::string> asks;
  if (!annotations.is_object()) return asks;
  for (const auto& item : annotations.items()) {
    if (!item.key().starts_with(prefix_of_ours) || asks.size() >= most_of_a_pod) continue;
    const auto* text = item.value().get_ptr<const std::string*>();
    asks[item.key().substr(prefix_of_ours.size())] =
        text == nullptr ? std::string() : text->substr(0, longest_text + 1);
  }
  return asks;
}

void add_owner(const Json& owners, Pod& pod) {
  if (!owners.is_array()) return;
  for (const Json& owner : owners) {
    if (at(owner, "controller") != Json(true)) continue;
    pod.owner_kind = text_of(at(owner, "kind"));
    pod.owner_name = text_of(at(owner, "name"));
  }
}

void add_containers(const Json& list, bool init, Pod& pod) {
  if (!list.is_array()) return;
  for (const Json& one : list) {
    std::string name = text_of(at(one, "name"));
    if (!is_name_in_dns(name) || pod.containers.size() >= most_of_a_pod) continue;
    pod.containers.push_back({std::move(name), "", whole_cpus(at(at(at(one, "resources"), "requests"), "cpu")), init});
  }
}

void add_ids(const Json& statuses, Pod& pod) {
  if (!statuses.is_array()) return;
  for (const Json& status : statuses) {
    if (at(at(status, "state"), "running").is_null()) continue;
    const std::string name = text_of(at(status, "name"));
    for (PodContainer& container : pod.containers) {
      if (container.name == name) container.id = container_id(at(status, "containerID"));
    }
  }
}

std::optional<Pod> pod_of(const Json& value) {
  const Json& metadata = at(value, "metadata");
  const Json& status = at(value, "status");
  Pod pod;
  pod.name_space = text_of(at(metadata, "namespace"));
  pod.name = text_of(at(metadata, "name"));
  pod.uid = uid_of(at(metadata, "uid"));
  if (!is_name_in_dns(pod.name_space) || !is_name_in_dns(pod.name) || pod.uid.empty()) return std::nullopt;
  pod.config_hash = uid_of(at(at(metadata, "annotations"), hash_of_static_pod));
  pod.labels = labels_of(at(metadata, "labels"));
  pod.asks = asks_of(at(metadata, "annotations"));
  add_owner(at(metadata, "ownerReferences"), pod);
  pod.ip = text_of(at(status, "podIP"));
  pod.host_ip = text_of(at(status, "hostIP"));
  pod.guaranteed = text_of(at(status, "qosClass")) == "Guaranteed";
  const std::string phase = text_of(at(status, "phase"));
  pod.over = phase == "Succeeded" || phase == "Failed";
  pod.deleting = at(metadata, "deletionTimestamp").is_string();
  const Json& spec = at(value, "spec");
  pod.host_network = at(spec, "hostNetwork") == Json(true);
  add_containers(at(spec, "containers"), false, pod);
  add_containers(at(spec, "initContainers"), true, pod);  // those that go on beside the others (sidecars)
  add_ids(at(status, "containerStatuses"), pod);
  add_ids(at(status, "initContainerStatuses"), pod);
  return pod;
}

}  // namespace

const PodContainer* Pod::find(const std::string& container) const {
  const auto found = std::find_if(containers.begin(), containers.end(),
                                  [&](const PodContainer& one) { return one.name == container; });
  return found == containers.end() ? nullptr : &*found;
}

Result<std::vector<Pod>> parse_pods(std::string_view text) {
  const Json::parser_callback_t keep = [](int depth, Json::parse_event_t event, Json& parsed) {
    return event != Json::parse_event_t::key || is_wanted(depth, parsed.get_ref<const std::string&>());
  };
  const Json document = Json::parse(text.begin(), text.end(), keep, false);
  const Json& items = at(document, "items");
  // A list without pods says "items": null at times.
  const bool is_list = document.is_object() && (text_of(at(document, "kind")) == "PodList" || items.is_array());
  if (document.is_discarded() || !is_list) return Error{ErrorKind::Io, "expected a list of pods as JSON", 0};
  std::vector<Pod> pods;
  if (!items.is_array()) return pods;
  for (const Json& item : items) {
    if (pods.size() >= most_pods) break;
    if (auto pod = pod_of(item)) pods.push_back(std::move(*pod));
  }
  return pods;
}

bool matches(const Pod& pod, const PodMatch& match) {
  if (pod.name_space != match.name_space) return false;
  if (!match.name.empty()) return pod.name == match.name;
  return std::all_of(match.labels.begin(), match.labels.end(), [&](const auto& label) {
    const auto found = pod.labels.find(label.first);
    return found != pod.labels.end() && found->second == label.second;
  });
}

std::string words_of(const PodMatch& match) {
  std::string words = "pod " + match.name_space + "/" + match.name;
  if (match.name.empty()) {
    words = "a pod of namespace " + match.name_space + " with ";
    for (const auto& [key, text] : match.labels)
      words.append(words.ends_with(' ') ? "" : ",").append(key).append("=").append(text);
  }
  return match.container.empty() ? words : words + container_words + match.container;
}

}  // namespace osml
