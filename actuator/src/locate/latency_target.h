// The custom resource LatencyTarget (osml.dev/v1alpha1) as the API server lists it, reduced to what chooses pods and to
// what it asks for them. Whoever may make one writes it, so it is read as annotations are: a mistake refuses this
// object alone. The CRD is deploy/kubernetes/latency-targets/crd.yaml; a test compares it with this reader.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "locate/selector.h"

namespace osml {

inline constexpr const char* target_api = "osml.dev/v1alpha1";
inline constexpr const char* target_kind = "LatencyTarget";
inline constexpr std::size_t most_targets = 4096;  // of a list; one that is longer is none

struct LatencyTarget {
  std::string name_space, name;
  LabelSelector selector;
  std::map<std::string, std::string> asks = {};  // as annotations say it: annotations.h

  [[nodiscard]] std::string full_name() const { return name_space + "/" + name; }
  bool operator==(const LatencyTarget&) const = default;
};

// One answer of the API server, or several that belong together.
struct TargetPage {
  std::vector<LatencyTarget> targets;
  std::map<std::string, std::string> refused = {};  // namespace and name -> why, one sentence
  std::string next = {};                            // where the list goes on; empty: it is whole
};

// Of namespaces that may ask; an object without names is left out. The error: this is no such list.
Result<TargetPage> parse_targets(std::string_view text, const DiscoverConfig& discover);

}  // namespace osml
