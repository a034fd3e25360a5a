// The kubelet's list of its pods (v1 PodList), reduced to what finds their cgroups. Names, labels and annotations are
// whatever somebody gave a pod: they are compared and shown, never a part of a path.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"

namespace osml {

struct PodContainer {
  std::string name;
  std::string id;           // hexadecimal digits; empty while it does not run
  unsigned whole_cpus = 0;  // requested; 0 where it asks for none or for a part
  bool init = false;        // runs before the others, and most often ends before them
};

struct Pod {
  std::string name_space, name;
  std::string uid;
  std::string
      config_hash;  // of a static pod, whose cgroup has it in place of the uid; whoever makes a pod can claim one
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> asks;  // annotations of osml.dev, without that prefix; see annotations.h
  std::string owner_kind, owner_name;       // of the controller; empty where it has none
  std::string ip, host_ip;                  // as text; equal where it has no network of its own
  bool host_network = false;
  bool guaranteed = false;
  bool over = false;      // succeeded or failed: nothing runs any more
  bool deleting = false;  // somebody deleted it; it may still serve
  bool untold = false;    // the kubelet tells it no longer, and it still runs; see PodFinder
  std::vector<PodContainer> containers;

  [[nodiscard]] std::string full_name() const { return name_space + "/" + name; }
  // It may still serve, but where another pod matches as well, that one does so in its place.
  [[nodiscard]] bool goes() const { return deleting || untold; }
  [[nodiscard]] const PodContainer* find(const std::string& container) const;
};

inline constexpr std::size_t most_pods = 2048;
// Of one text; of an annotation one more is kept, so that its reader sees that it is too long.
inline constexpr std::size_t longest_pod_text = 317;

// A pod that makes no sense is left out. The error: this is no list of pods.
Result<std::vector<Pod>> parse_pods(std::string_view text);
bool matches(const Pod& pod, const PodMatch& match);
// "pod search/web-0, container app", "a pod in search with app=web".
std::string words_of(const PodMatch& match);
inline constexpr const char* container_words = ", container ";  // in them, where one container is meant

}  // namespace osml
