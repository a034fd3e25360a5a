// Names of cgroups as systemd, Docker and the kubelet make them, on trees of v1 and v2.
#include "locate/cgroup_search.h"

#include <gtest/gtest.h>

#include "locate/docker_finder.h"
#include "locate/locator.h"
#include "tree.h"

namespace osml {
namespace {

using testing_support::Tree;

const std::string id(64, '7');

class CgroupSearchTest : public testing::TestWithParam<bool> {
 protected:
  CgroupSearchTest() {
    if (GetParam()) tree_.write("cgroup/cgroup.controllers", "cpuset cpu\n");
  }
  void group(const std::string& path) {
    if (GetParam()) {
      tree_.write("cgroup/" + path + "/cgroup.procs", "");
      return;
    }
    for (const char* controller : {"cpu,cpuacct", "cpuset"}) {
      tree_.write(std::string("cgroup/") + controller + "/" + path + "/tasks", "");
    }
  }
  [[nodiscard]] std::vector<std::string> pods() const {
    std::vector<std::string> found;
    for (const PodDirectory& pod : pod_directories(tree_.roots())) found.push_back(pod.uid + " " + pod.path);
    return found;
  }

  Tree tree_;
};

INSTANTIATE_TEST_SUITE_P(Versions, CgroupSearchTest, testing::Bool(),
                         [](const auto& one) { return one.param ? "v2" : "v1"; });

TEST_P(CgroupSearchTest, FindsUnitsInTheirSlices) {
  group("system.slice/redis.service");
  group("system.slice/system-web.slice/web@2.service");
  group("lc.slice/lc-fast.slice/_cpu.service");
  group("system.slice/misc.service");
  group("user.slice/user-1000.slice/user@1000.service/app.slice/evil.service");
  const Roots roots = tree_.roots();
  EXPECT_EQ(find_unit(roots, "redis.service"), "system.slice/redis.service");
  EXPECT_EQ(find_unit(roots, "web@2.service"), "system.slice/system-web.slice/web@2.service");
  EXPECT_EQ(find_unit(roots, "cpu.service"), "lc.slice/lc-fast.slice/_cpu.service");
  EXPECT_EQ(find_unit(roots, "misc.service"), "system.slice/misc.service") << "systemd does not escape all controllers";
  EXPECT_EQ(find_unit(roots, "lc-fast.slice"), "lc.slice/lc-fast.slice");
  EXPECT_EQ(find_unit(roots, "evil.service"), "") << "a user made it, not systemd";
  EXPECT_EQ(find_unit(roots, "redis"), "");
}

TEST_P(CgroupSearchTest, FollowsAUnitThatStartsLaterStopsAndComesBack) {
  group("");  // the root has processes of its own
  Config config = tree_.config();
  config.services.resize(1);
  config.services[0].match = {};
  config.services[0].match.systemd = "redis.service";
  Locator locator(config, nullptr);
  for (int turn = 0; turn < 3; ++turn) {
    const Place place = locator.look().front();
    EXPECT_TRUE(place.absent);
    EXPECT_EQ(place.why, "unit redis.service of systemd has no cgroup, so it does not run");
  }
  group("system.slice/redis.service");
  EXPECT_EQ(locator.look().front().match.cgroup, "system.slice/redis.service");
  fs::remove_all(tree_ / "cgroup");
  if (GetParam()) tree_.write("cgroup/cgroup.controllers", "cpuset cpu\n");
  group("");
  EXPECT_TRUE(locator.look().front().absent);
  group("lc.slice/redis.service");
  EXPECT_EQ(locator.look().front().match.cgroup, "lc.slice/redis.service");
}

TEST_P(CgroupSearchTest, FindsContainersOfDockerByIdAndByName) {
  group("docker/" + id);
  const std::string other = "1234" + std::string(60, 'b');
  group("system.slice/docker-" + other + ".scope");
  tree_.write("docker/containers/" + id + "/config.v2.json", R"({"ID": "x", "Name": "/search"})");
  tree_.write("docker/containers/" + other + "/config.v2.json", R"({"Name": 3})");
  tree_.write("docker/containers/lost+found/config.v2.json", R"({"Name": "/search"})");
  Roots roots = tree_.roots();
  roots.docker = tree_ / "docker";
  DockerFinder finder;
  EXPECT_EQ(finder.find(roots, "search").path, "docker/" + id);
  EXPECT_EQ(finder.find(roots, id.substr(0, 12)).path, "docker/" + id);
  EXPECT_EQ(finder.find(roots, other).path, "system.slice/docker-" + other + ".scope");
  EXPECT_EQ(finder.find(roots, "nobody").why, "no container 'nobody' of Docker runs");
  group("docker/" + id.substr(0, 20) + std::string(44, 'c'));
  EXPECT_EQ(finder.find(roots, id.substr(0, 14)).why,
            "several containers have an id that begins with " + id.substr(0, 14));
  EXPECT_EQ(finder.find(roots, "search").path, "docker/" + id);
  // Renamed, and another one has its name.
  const std::string next(64, 'd');
  tree_.write("docker/containers/" + id + "/config.v2.json", R"({"ID": "x", "Name": "/search-old"})");
  tree_.write("docker/containers/" + next + "/config.v2.json", R"({"Name": "/search"})");
  group("docker/" + next);
  EXPECT_EQ(finder.find(roots, "search").path, "docker/" + next);
  fs::remove_all(tree_ / "docker/containers" / next);
  for (const fs::path& root : hierarchies(roots)) fs::remove_all(root / "docker" / next);
  tree_.write("docker/containers/" + id + "/config.v2.json", R"({"ID": "x", "Name": "/search"})");
  EXPECT_EQ(finder.find(roots, "search").path, "docker/" + id);
  // Made anew under the same name.
  const std::string fresh(64, 'e');
  fs::remove_all(tree_ / "docker/containers" / id);
  for (const fs::path& root : hierarchies(roots)) fs::remove_all(root / "docker" / id);
  tree_.write("docker/containers/" + fresh + "/config.v2.json", R"({"Name": "/search"})");
  group("docker/" + fresh);
  EXPECT_EQ(finder.find(roots, "search").path, "docker/" + fresh);
}

TEST_P(CgroupSearchTest, FindsPodsOfBothDriversAndAllClasses) {
  const std::string burstable = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1a_2b.slice";
  group(burstable + "/cri-containerd-" + id + ".scope");
  group("kubepods.slice/kubepods-pod3c_4d.slice/crio-" + id + ".scope");
  group("kubepods.slice/kubepods-pod3c_4d.slice/crio-conmon-" + std::string(64, '8') + ".scope");
  group("kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod5e_6f.slice");
  EXPECT_EQ(pods(), (std::vector<std::string>{
                        "3c-4d kubepods.slice/kubepods-pod3c_4d.slice",
                        "5e-6f kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod5e_6f.slice",
                        "1a-2b " + burstable}));
  EXPECT_EQ(find_container(tree_.roots(), burstable, id), burstable + "/cri-containerd-" + id + ".scope");
  EXPECT_EQ(find_container(tree_.roots(), "kubepods.slice/kubepods-pod3c_4d.slice", id),
            "kubepods.slice/kubepods-pod3c_4d.slice/crio-" + id + ".scope");
  EXPECT_EQ(find_container(tree_.roots(), "kubepods.slice/kubepods-pod3c_4d.slice", std::string(64, '8')), "");
}

TEST_P(CgroupSearchTest, FindsPodsOfCgroupfsOfKindAndStaticOnes) {
  group("kubepods/burstable/pod1a-2b/" + id);
  group("kubepods/burstable/pod3c-4d/crio-conmon-" + id);
  group("kubepods/podffffffffffffffffffffffffffffffff");
  group("kubelet/kubepods/besteffort/pod9");
  group("kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod7.slice");
  // Made by a container in its own cgroup.
  group("kubepods/burstable/pod1a-2b/" + id + "/kubepods/podbad");
  EXPECT_EQ(pods(), (std::vector<std::string>{
                        "ffffffffffffffffffffffffffffffff kubepods/podffffffffffffffffffffffffffffffff",
                        "1a-2b kubepods/burstable/pod1a-2b",
                        "3c-4d kubepods/burstable/pod3c-4d",
                        "9 kubelet/kubepods/besteffort/pod9",
                        "7 kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
                        "kubelet-kubepods-burstable-pod7.slice",
                    }));
  EXPECT_EQ(find_container(tree_.roots(), "kubepods/burstable/pod1a-2b", id), "kubepods/burstable/pod1a-2b/" + id);
  EXPECT_EQ(find_container(tree_.roots(), "kubepods/burstable/pod3c-4d", id), "");
  group("kubepods/burstable/pod3c-4d/crio-" + id);  // CRI-O names it so without systemd, too
  EXPECT_EQ(find_container(tree_.roots(), "kubepods/burstable/pod3c-4d", id), "kubepods/burstable/pod3c-4d/crio-" + id);
}

}  // namespace
}  // namespace osml
