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
  // `config` must outlive this; its list of services may change between two looks. `pods`: null = the kubelet of the
  // configuration.
  Locator(const Config& config, PodSource* pods);

  // Once before look(), in node time: the kubelet, where a service is a pod or pods may ask for services.
  void ask(double now_s);
  // In the configuration's order.
  std::vector<Place> look();
  // See PodFinder; none also where no pod may ask for a service.
  const std::vector<const Pod*>* asking_pods();
  [[nodiscard]] bool has_heard_of_pods() const { return pods_.has_heard(); }
  // A container that the runtime makes. Node time.
  void hear_of(const ContainerQuestion& heard, double now_s);
  // The service that it would be a part of; empty where it is of none.
  [[nodiscard]] std::string service_of(const ContainerQuestion& heard) const;
  // Where pods may ask for services: the pod, as far as the kubelet told it; else null.
  [[nodiscard]] const Pod* asking_pod(const std::string& pod_uid) const;
  // Where the journal says that a service was; taken where the configuration still asks for the same.
  void remember(const std::string& service, const Match& match);
  // Where the journal says that an agent set CPUs, also of a service that has another name by now.
  void remember_own_work(const Match& match);
  // None where the kubelet is not asked.
  [[nodiscard]] const PodFinder::Calls* kubelet() const { return asks_kubelet_ ? &pods_.calls() : nullptr; }

 private:
  Finding find(const ServiceConfig& service);
  Finding find_unit_of(const ServiceConfig& service);
  void find_cgroup(const ServiceConfig& service, Place& place);
  void leave_out_strangers(Place& place);

  const Config* config_;
  bool asks_kubelet_;
  PodFinder pods_;
  DockerFinder docker_;
  std::map<std::string, std::string> last_;  // service -> cgroup where it was found last
  std::map<int, std::string> started_;       // process that match.pids names -> its start time at first sight
};

// What was found is one container of a pod.
bool is_of_container(const Match& found);
// What was found is a pod by its name, as it is where pods ask for services, or a container of one.
bool is_of_one_pod(const Match& found);
// What was found is a pod or a container of one.
bool is_of_pod(const Match& found);
// A unit, a container or a pod, whose cgroup has to be found first.
bool is_found_by_name(const Match& match);

}  // namespace osml
