// A cgroup tree with pods in it, and a kubelet that says what the test wants.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apply/actuator.h"
#include "tree.h"

namespace osml::testing_support {

class FakeKubelet : public PodSource {
 public:
  Result<std::vector<Pod>> pods() override {
    ++asked;
    if (away) return Error{ErrorKind::Busy, "connection refused", 0};
    return list;
  }
  std::vector<Pod> list;
  bool away = false;
  int asked = 0;
};

inline std::string id_of(unsigned number) {
  std::string id = std::to_string(number);
  return std::string(64 - id.size(), '0') + id;
}

class PodServiceTest : public testing::Test {
 protected:
  PodServiceTest() {
    tree_.sysfs();
    tree_.write("cgroup/cgroup.controllers", "cpuset cpu memory\n");
    config_ = tree_.config();
    config_.services.resize(1);
    config_.services[0].match = {};
    config_.services[0].match.pod = PodMatch{"shop", "", {{"app", "web"}}, "app"};
    config_.time_scale = 1e6;  // a second of the pace is a microsecond
  }
  static std::string slice_of(const std::string& uid) {
    return "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid + ".slice";
  }
  static std::string scope_of(const std::string& uid, unsigned number) {
    return slice_of(uid) + "/cri-containerd-" + id_of(number) + ".scope";
  }
  // A pod with one running container, in the tree and in the kubelet's list.
  Pod& start(const std::string& name, const std::string& uid, unsigned number, int pid) {
    tree_.cgroup2(scope_of(uid, number), pid);
    tree_.write("cgroup/" + slice_of(uid) + "/cgroup.procs", "");
    Pod pod;
    pod.name_space = "shop";
    pod.name = name;
    pod.uid = uid;
    pod.labels = {{"app", "web"}};
    pod.containers = {{"app", id_of(number), 0}};
    kubelet_.list.push_back(pod);
    return kubelet_.list.back();
  }
  void stop(const std::string& uid) { fs::remove_all(tree_ / ("cgroup/" + slice_of(uid))); }
  Result<Actuator> open() { return Actuator::open(config_, {.pods = &kubelet_}); }
  static Decision decision(const std::string& cpus) {
    Decision made;
    made.node = "n";
    made.partition.regions = {{{"lc"}, 1, 0}};
    made.assignments = {{"lc", cpus, {}, {}, {}, {}}};
    return made;
  }
  [[nodiscard]] std::string cpus(const std::string& path) const {
    return tree_.text("cgroup/" + path + "/cpuset.cpus");
  }
  [[nodiscard]] nlohmann::json journal() const { return nlohmann::json::parse(tree_.text("state/journal.json")); }

  Tree tree_{in_memory()};
  Config config_;
  FakeKubelet kubelet_;
};

}  // namespace osml::testing_support
