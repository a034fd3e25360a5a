// Finds the services of the configuration on this machine, once an interval.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/config.h"
#include "locate/docker_finder.h"
#include "locate/place.h"
#include "locate/pod_finder.h"

namespace osml {

class Locator {
 public:
  // `config` must outlive this. `pods`: null = the kubelet of the configuration.
  Locator(const Config& config, PodSource* pods);

  // In the configuration's order. Node time.
  std::vector<Place> look(double now_s);
  // Where the journal says that a service was; taken where the configuration still asks for the same.
  void remember(const std::string& service, const Match& match);
  // None where no service is a pod.
  [[nodiscard]] const PodFinder::Calls* kubelet() const { return has_pods_ ? &pods_.calls() : nullptr; }

 private:
  Finding find(const ServiceConfig& service);
  Finding find_unit_of(const ServiceConfig& service);
  void find_cgroup(const ServiceConfig& service, Place& place);

  const Config* config_;
  bool has_pods_;
  PodFinder pods_;
  DockerFinder docker_;
  std::map<std::string, std::string> last_;  // service -> cgroup where it was found last
};

// A unit, a container or a pod, whose cgroup has to be found first.
bool is_found_by_name(const Match& match);

}  // namespace osml
