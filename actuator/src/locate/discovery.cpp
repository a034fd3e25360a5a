#include "locate/discovery.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/printable.h"
#include "locate/annotations.h"

namespace osml {

namespace {

constexpr std::size_t longest_reason = 400;
constexpr std::size_t most_pods_told = 8;

struct Candidate {
  const Pod* pod;
  ServiceConfig service;
};
using Candidates = std::vector<Candidate>;

// The service that the configuration makes of this pod, whatever the pod asks for; empty where it makes none.
std::string configured_as(const Pod& pod, const std::vector<ServiceConfig>& configured) {
  for (const ServiceConfig& one : configured) {
    if (one.match.pod && matches(pod, *one.match.pod)) return one.spec.name;
  }
  return {};
}

// Why the configuration speaks against it; empty where it does not.
std::string against(const ServiceConfig& service, const std::vector<ServiceConfig>& configured) {
  const auto key = [&](const char* ask) { return is_of_target(service) ? field_of(ask) : annotation_of(ask); };
  for (const ServiceConfig& one : configured) {
    if (one.spec.name == service.spec.name) {
      return "the configuration of the agent has a service '" + one.spec.name + "' already; set " + key("service");
    }
    const bool same_socket = one.latency && one.latency->datagram && service.latency && service.latency->datagram &&
                             one.latency->datagram->lexically_normal() == service.latency->datagram->lexically_normal();
    if (same_socket) return "its socket is also that of service '" + one.spec.name + "'; set " + key("service");
  }
  return {};
}

// None where nothing is asked for the pod.
std::optional<Result<ServiceConfig>> asked_of(const Pod& pod, const DiscoverConfig& rules, TargetBook& targets) {
  if (asks_for_service(pod)) return service_of(pod, rules);
  const std::vector<const LatencyTarget*>& selecting = targets.selecting(pod);
  if (selecting.empty()) return std::nullopt;
  if (selecting.size() == 1) return service_of(pod, *selecting.front(), rules);
  return Error{ErrorKind::Input,
               std::to_string(selecting.size()) + " " + target_kind + "s select it, such as " +
                   selecting[0]->full_name() + " and " + selecting[1]->full_name() +
                   "; expected one, make spec.selector narrower",
               0};
}

Candidates candidates_of(const std::vector<const Pod*>& pods, const DiscoverConfig& rules,
                         const std::vector<ServiceConfig>& configured, TargetBook& targets, Discovered& found) {
  Candidates candidates;
  for (const Pod* pod : pods) {
    if (!may_ask(rules, pod->name_space)) continue;
    auto service = asked_of(*pod, rules, targets);
    if (!service) continue;
    if (const std::string name = configured_as(*pod, configured); *service && !name.empty()) {
      spdlog::debug("pod {} is service '{}' of the configuration", pod->full_name(), name);
      continue;
    }
    const std::string why = *service ? against(**service, configured) : service->error().message;
    if (why.empty()) {
      candidates.push_back({pod, std::move(**service)});
    } else {
      found.refused[pod->full_name()] = why;
    }
  }
  return candidates;
}

// As the journal writes it.
std::string pod_of(const ServiceConfig& service) {
  return service.match.found_by.empty() ? words_of(*service.match.pod) : service.match.found_by;
}

// The same service of the same pod.
bool is_same(const ServiceConfig& one, const ServiceConfig& other) {
  return one.spec.name == other.spec.name && pod_of(one) == pod_of(other);
}

bool is_in(const ServiceConfig& service, const std::vector<ServiceConfig>& before) {
  return std::any_of(before.begin(), before.end(), [&](const ServiceConfig& one) { return is_same(one, service); });
}

std::string asked_where(const ServiceConfig& service) {
  if (is_of_target(service)) return *service.spec.source + ", for pod " + service.match.pod->name;
  return "the annotations of " + *service.spec.source;
}

// One pod a name: the one that has it already, else the first by its name. Of a pod that goes nothing is said where
// another one follows.
Candidates unique(Candidates candidates, const std::vector<ServiceConfig>& before, Discovered& found) {
  std::map<std::string, Candidates> by_name;
  for (Candidate& one : candidates) by_name[one.service.spec.name].push_back(std::move(one));
  Candidates chosen;
  for (auto& [name, same] : by_name) {
    const bool one_stays = std::any_of(same.begin(), same.end(), [](const Candidate& one) { return !one.pod->goes(); });
    if (one_stays) std::erase_if(same, [](const Candidate& one) { return one.pod->goes(); });
    if (same.size() == 1) {
      chosen.push_back(std::move(same.front()));
      continue;
    }
    auto known =
        std::find_if(same.begin(), same.end(), [&](const Candidate& one) { return is_in(one.service, before); });
    if (known == same.end()) {
      known = std::min_element(same.begin(), same.end(), [](const Candidate& one, const Candidate& other) {
        return one.pod->full_name() < other.pod->full_name();
      });
    }
    for (const Candidate& one : same) {
      if (&one == &*known) continue;
      found.waiting[one.pod->full_name()] =
          "service '" + name + "' is " + known->pod->full_name() + " on this node; this pod follows when that one goes";
    }
    chosen.push_back(std::move(*known));
  }
  return chosen;
}

}  // namespace

Discovered discover(const std::vector<const Pod*>& pods, const DiscoverConfig& rules,
                    const std::vector<ServiceConfig>& configured, const std::vector<ServiceConfig>& before,
                    TargetBook& targets) {
  Discovered found;
  Candidates chosen = unique(candidates_of(pods, rules, configured, targets, found), before, found);
  std::set<std::string> there;
  for (const ServiceConfig& one : before) there.insert(one.spec.name);
  std::stable_partition(chosen.begin(), chosen.end(),
                        [&](const Candidate& one) { return there.contains(one.service.spec.name); });
  std::map<std::string, unsigned> counts;
  for (Candidate& one : chosen) {
    unsigned& count = counts[one.pod->name_space];
    if (count >= rules.per_namespace) {
      found.refused[one.pod->full_name()] = "namespace " + one.pod->name_space + " has " + std::to_string(count) +
                                            " services on this node already, expected at most "
                                            "kubelet.discover.per_namespace";
    } else if (configured.size() + found.services.size() >= max_services) {
      found.refused[one.pod->full_name()] =
          "the node has " + std::to_string(max_services) + " services already, and more are not allowed";
    } else {
      ++count;
      found.services.push_back(std::move(one.service));
    }
  }
  std::sort(found.services.begin(), found.services.end(),
            [](const ServiceConfig& a, const ServiceConfig& b) { return a.spec.name < b.spec.name; });
  return found;
}

namespace {

using Said = std::map<std::string, std::string>;  // pod -> what

void tell_news(const Said& now, const Said& before, spdlog::level::level_enum level, const char* what) {
  std::size_t lines = 0;
  for (const auto& [pod, why] : now) {
    const auto told = before.find(pod);
    if (told != before.end() && told->second == why) continue;
    if (++lines > most_pods_told) continue;
    spdlog::log(level, "pod {} {}: {}", pod, what, printable(why, longest_reason));
  }
  if (lines > most_pods_told) spdlog::log(level, "{} more pods: {}", lines - most_pods_told, what);
}

}  // namespace

void tell(const Discovered& now, const Discovered& before) {
  for (const ServiceConfig& one : now.services) {
    const bool known = std::any_of(before.services.begin(), before.services.end(), [&](const ServiceConfig& other) {
      return is_same(one, other) && one.spec.source == other.spec.source;
    });
    if (!known) spdlog::info("service '{}' comes from {}", one.spec.name, asked_where(one));
  }
  for (const ServiceConfig& one : before.services) {
    const bool stays = std::any_of(now.services.begin(), now.services.end(),
                                   [&](const ServiceConfig& other) { return other.spec.name == one.spec.name; });
    if (!stays) spdlog::info("service '{}' is no longer asked for by {}", one.spec.name, *one.spec.source);
  }
  tell_news(now.refused, before.refused, spdlog::level::warn, "asks for a service and gets none");
  tell_news(now.waiting, before.waiting, spdlog::level::info, "waits");
}

}  // namespace osml
