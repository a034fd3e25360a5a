// Where units, containers and pods have their cgroups: names that systemd, container runtimes and the kubelet choose,
// looked for in the tree itself. What a container has made below its own cgroup is never looked at.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace osml {

// What is searched: the tree of v2, or of each v1 controller that says who the members are.
std::vector<fs::path> hierarchies(const Roots& roots);
// A path of a hierarchy is at or below another.
bool is_within(const std::string& inner, const std::string& outer);
// Paths are relative to a hierarchy, as Match::cgroup is; empty where there is none.
std::string find_unit(const Roots& roots, const std::string& unit);
// All containers of Docker whose id begins so.
std::vector<std::string> find_docker(const Roots& roots, const std::string& id);

struct PodDirectory {
  std::string uid;  // with '-', as the kubelet says it
  std::string path;

  bool operator==(const PodDirectory&) const = default;
};
// Drivers systemd and cgroupfs, all QoS classes, and names with a prefix (kind: "kubelet-kubepods").
std::vector<PodDirectory> pod_directories(const Roots& roots);
// The cgroup of a container in a pod's, by its whole id.
std::string find_container(const Roots& roots, const std::string& pod_path, const std::string& id);

}  // namespace osml
