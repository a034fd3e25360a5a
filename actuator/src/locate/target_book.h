// The LatencyTargets in force on this node: as the API server listed them last, or as an agent before this one heard.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "locate/latency_target.h"
#include "locate/pod_list.h"

namespace osml {

// What the API server says of one namespace, or of all.
struct TargetNews {
  std::string name_space;  // empty: all
  TargetPage list;         // whole
};

class TargetBook {
 public:
  // Replaces what was known of the namespace. False where nothing is new.
  bool take(TargetNews news);
  // Of its namespace, by name. Lives until the next call of anything that is not const. What was chosen for a pod is
  // kept until the pods are told anew, since most intervals ask the same.
  const std::vector<const LatencyTarget*>& selecting(const Pod& pod);
  // `told`: another number whenever the kubelet told its pods; see selecting().
  void see_pods(std::uint64_t told);

  [[nodiscard]] const std::vector<LatencyTarget>& targets() const { return targets_; }
  [[nodiscard]] const std::map<std::string, std::string>& refused() const { return refused_; }

  // For the file that a restart of the agent finds. What cannot be understood is an error, and nothing is taken.
  [[nodiscard]] std::string text() const;
  Status read(std::string_view text, const DiscoverConfig& discover);

 private:
  std::vector<LatencyTarget> targets_;          // by namespace and name
  std::map<std::string, std::string> refused_;  // namespace and name -> why
  std::uint64_t told_ = 0;
  std::map<std::string, std::vector<const LatencyTarget*>> chosen_;  // by uid of the pod
};

}  // namespace osml
