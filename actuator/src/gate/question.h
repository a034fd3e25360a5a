// What is asked and answered about a container that a runtime is about to start. Two processes of this node talk so:
// the NRI plugin, which asks, and the agent, which alone knows what a service has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace osml {

// Names are whatever somebody gave a container: they are compared, never a part of a path. `id` and `pod_uid` have the
// characters of their kind alone, since they become one.
struct ContainerQuestion {
  enum class Stage {
    Look,  // which CPUs it is to have
    Start  // its cgroup is there and its program waits: set all that its service has
  };
  std::uint64_t number = 0;
  Stage stage = Stage::Look;
  std::string pod_uid;
  std::string container;
  std::string id;
  // CPUs that the kubelet's CPU manager has chosen for it; empty: none. Absent where nobody knows any more.
  std::optional<std::string> kubelet_cpus;

  bool operator==(const ContainerQuestion&) const = default;
};

struct ContainerAnswer {
  std::uint64_t number = 0;
  std::string service;  // empty: of none that is managed
  std::string cpus;     // a CPU list; empty: none are set for the service

  bool operator==(const ContainerAnswer&) const = default;
};

// Service -> CPU list, of all that have one.
using CpusInForce = std::map<std::string, std::string>;

// Whether the agent can read it: a sandbox that no kubelet made may have any text as its uid.
bool is_well_formed(const ContainerQuestion& question);

// One JSON object each. An error names the field.
std::string text_of(const ContainerQuestion& question);
Result<ContainerQuestion> parse_question(std::string_view text);
std::string text_of(const ContainerAnswer& answer);
std::string text_of(const CpusInForce& cpus);
// What the agent sends: the one or the other.
struct FromAgent {
  std::optional<ContainerAnswer> answer;
  std::optional<CpusInForce> in_force;
};
Result<FromAgent> parse_from_agent(std::string_view text);

}  // namespace osml
