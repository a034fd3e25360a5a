// The services that the pods of this node ask for, or that a LatencyTarget asks for them, beside those of the
// configuration, which win over both.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/config.h"
#include "locate/pod_list.h"
#include "locate/target_book.h"

namespace osml {

struct Discovered {
  std::vector<ServiceConfig> services;         // by name
  std::map<std::string, std::string> refused;  // pod -> why, one sentence
  // pod -> for what: its service is another pod of this node, which is no mistake
  std::map<std::string, std::string> waiting = {};
};

// `configured`: services of the configuration alone. `before`: what this said last, or what a journal says of it (names
// and Match::found_by); who is there already is not pushed out by who comes. Of several new pods that ask for one name
// the first by its name gets it. A pod with annotations of osml.dev is governed by them alone; else the one
// LatencyTarget of its namespace that selects it counts.
Discovered discover(const std::vector<const Pod*>& pods, const DiscoverConfig& rules,
                    const std::vector<ServiceConfig>& configured, const std::vector<ServiceConfig>& before,
                    TargetBook& targets);

// Says what is news, a bounded number of lines: whoever makes pods can make many.
void tell(const Discovered& now, const Discovered& before);

}  // namespace osml
