// Services that are pods, through the whole actuator: a cgroup tree, a kubelet that says what the test wants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apply/actuator.h"
#include "base/clock.h"
#include "tree.h"

namespace osml {
namespace {

using testing::HasSubstr;
using testing_support::Tree;

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

std::string id_of(unsigned number) {
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

  Tree tree_{testing_support::in_memory()};
  Config config_;
  FakeKubelet kubelet_;
};

TEST_F(PodServiceTest, AContainerIsFoundSetAndFollowedOverARestart) {
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  ASSERT_TRUE(actuator) << actuator.error().message;
  EXPECT_EQ(absent_in_words(actuator->places()), "");
  ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-3");
  // The kubelet starts it anew, and says so a little later.
  fs::remove_all(tree_ / ("cgroup/" + scope_of("1a", 1)));
  tree_.cgroup2(scope_of("1a", 2), 20);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->places()[0].why, "container 'app' of pod shop/web-0 does not run");
  EXPECT_TRUE(journal()["originals"].empty());
  kubelet_.list[0].containers[0].id = id_of(2);
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_FALSE(actuator->places()[0].absent) << actuator->places()[0].why;
  EXPECT_EQ(cpus(scope_of("1a", 2)), "0-3") << "nobody decided anything meanwhile";
  ASSERT_TRUE(actuator->restore());
  EXPECT_EQ(cpus(scope_of("1a", 2)), "");
}

TEST_F(PodServiceTest, AKubeletThatGoesAwayTakesNothingAlong) {
  start("web-0", "1a", 1, 10);
  {
    auto actuator = open();
    ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
    kubelet_.away = true;
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(actuator->reconcile());
    EXPECT_FALSE(actuator->places()[0].absent);
    EXPECT_EQ(actuator->apply(decision("0-2")).status, OutcomeStatus::Applied);
  }
  // Another agent, which never hears of the kubelet, knows the place from the journal.
  auto next = open();
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_FALSE(next->places()[0].absent) << next->places()[0].why;
  EXPECT_EQ(cpus(scope_of("1a", 1)), "0-2");
  EXPECT_FALSE(next->kubelet()->up);
  stop("1a");
  ASSERT_TRUE(next->reconcile());
  EXPECT_TRUE(next->places()[0].absent);
  EXPECT_TRUE(journal()["originals"].empty());
}

TEST_F(PodServiceTest, WithoutAWordOfTheKubeletAStrangerIsNotManaged) {
  start("web-0", "1a", 1, 10);
  kubelet_.away = true;
  auto actuator = open();
  EXPECT_THAT(actuator->places()[0].why, HasSubstr("the kubelet has not told its pods yet"));
  // What another configuration meant by this name is not what this one means.
  kubelet_.away = false;
  ASSERT_TRUE(actuator->reconcile());
  ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  kubelet_.away = true;
  config_.services[0].match.pod->labels = {{"app", "other"}};
  actuator = Error{ErrorKind::Busy, "", 0};
  auto other = open();
  EXPECT_TRUE(other->places()[0].absent);
  EXPECT_EQ(cpus(scope_of("1a", 1)), "") << "restored";
}

TEST_F(PodServiceTest, TwoPodsAreRefusedUnlessOneIsManagedAlready) {
  start("web-0", "1a", 1, 10);
  start("web-1", "2b", 2, 20);
  {
    auto actuator = open();
    EXPECT_EQ(actuator->places()[0].why,
              "2 pods match, such as shop/web-0 and shop/web-1; expected one, make match.pod narrower");
    kubelet_.list[1].deleting = true;
    ASSERT_TRUE(actuator->reconcile());
    EXPECT_FALSE(actuator->places()[0].absent) << "one of them goes";
    ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  }
  kubelet_.list[1].deleting = false;
  auto actuator = open();
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_FALSE(actuator->places()[0].absent);
  EXPECT_THAT(actuator->places()[0].note, HasSubstr("the agent stays with shop/web-0"));
  EXPECT_EQ(cpus(scope_of("2b", 2)), "");
  // The old one ends, the new one is followed.
  stop("1a");
  kubelet_.list.erase(kubelet_.list.begin());
  ASSERT_TRUE(actuator->reconcile());
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->places()[0].match.cgroup, scope_of("2b", 2));
}

TEST_F(PodServiceTest, APodOfTwoServicesBelongsToTheFirst) {
  ServiceConfig second = config_.services[0];
  second.spec.name = "second";
  second.match.pod->container = "";
  config_.services.push_back(second);
  start("web-0", "1a", 1, 10);
  auto actuator = open();
  EXPECT_FALSE(actuator->places()[0].absent);
  EXPECT_THAT(actuator->places()[1].why, HasSubstr("not apart from that of service 'lc', which stands before it"));
  ASSERT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Applied);
  EXPECT_EQ(tree_.text("cgroup/" + slice_of("1a") + "/cgroup.procs"), "");
}

TEST_F(PodServiceTest, AClaimedHashLeadsToNoOtherPod) {
  config_.services[0].match.pod->container = "";
  start("bank", "bad", 2, 20).labels.clear();
  Pod& pod = start("web-0", "1a", 1, 10);
  stop("1a");
  pod.config_hash = "bad";  // whoever makes a pod writes its annotations
  auto actuator = open();
  EXPECT_TRUE(actuator->places()[0].absent);
  // Of a static pod the kubelet has no directory by its uid, and nobody else has the hash.
  kubelet_.list.erase(kubelet_.list.begin());
  ASSERT_TRUE(actuator->reconcile());
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_EQ(actuator->places()[0].match.cgroup, slice_of("bad"));
}

TEST_F(PodServiceTest, CpusOfTheKubeletsCpuManagerAreLeftAloneUnlessTaken) {
  Pod& pod = start("web-0", "1a", 1, 10);
  pod.guaranteed = true;
  pod.containers[0].whole_cpus = 2;
  tree_.write("cgroup/" + scope_of("1a", 1) + "/cpuset.cpus", "4-5\n");
  {
    auto actuator = open();
    EXPECT_THAT(actuator->places()[0].why, HasSubstr("has CPUs of its own from the kubelet's CPU manager"));
    EXPECT_EQ(actuator->apply(decision("0-3")).status, OutcomeStatus::Unchanged) << "a late answer";
    EXPECT_EQ(cpus(scope_of("1a", 1)), "4-5");
  }
  config_.kubelet.guaranteed = Guaranteed::Take;
  {
    auto actuator = open();
    ASSERT_EQ(actuator->apply(decision("0-1")).status, OutcomeStatus::Applied);
    EXPECT_EQ(cpus(scope_of("1a", 1)), "0-1");
    ASSERT_TRUE(actuator->restore());
    EXPECT_EQ(cpus(scope_of("1a", 1)), "4-5");
  }
  // Without the static CPU manager it has no CPUs of its own, also when the agent has given it as many as it asked for.
  config_.kubelet.guaranteed = Guaranteed::Leave;
  tree_.write("cgroup/" + scope_of("1a", 1) + "/cpuset.cpus", "\n");
  for (int start = 0; start < 2; ++start) {
    auto actuator = open();
    EXPECT_FALSE(actuator->places()[0].absent) << actuator->places()[0].why;
    (void)actuator->apply(decision("0-1"));
    ASSERT_TRUE(actuator->reconcile());
    EXPECT_EQ(cpus(scope_of("1a", 1)), "0-1");
  }
}

TEST(AskPaceTest, AsksAtOnceWhenSomethingChangedAndSeldomOtherwise) {
  AskPace pace;
  EXPECT_TRUE(pace.due(0));
  pace.answered(0, true);
  EXPECT_FALSE(pace.due(29));
  EXPECT_TRUE(pace.due(30));
  pace.answered(30, true);
  pace.changed(30.2);
  EXPECT_FALSE(pace.due(30.5)) << "not twice a second";
  EXPECT_TRUE(pace.due(31));
  int asked = 0;
  for (double now = 31; now < 131; now += 0.5) {
    if (!pace.due(now)) continue;
    ++asked;
    pace.answered(now, false);
  }
  EXPECT_LE(asked, 14) << "who is not here is not asked for all the time";
  pace.failed(200);
  pace.changed(200.5);
  EXPECT_FALSE(pace.due(200.9));
  pace.failed(201);
  EXPECT_FALSE(pace.due(202.9));
  EXPECT_TRUE(pace.due(203));
}

// A node's months in seconds: pods come, restart and go, the kubelet stumbles, the agent is restarted.
// OSML_POD_LIVES=10000 makes years of it.
TEST_F(PodServiceTest, ManyLivesLeaveNothingBehind) {
  const char* wanted = std::getenv("OSML_POD_LIVES");
  const auto lives = static_cast<unsigned>(wanted == nullptr ? 500 : std::stoul(wanted));
  constexpr unsigned seed = 7;
  unsigned random = seed;
  const auto chance = [&random](unsigned of) {
    random = random * 1103515245U + 12345U;
    return (random >> 16U) % of == 0;
  };
  fs::create_directory(tree_ / "state");
  auto actuator = open();
  ASSERT_TRUE(actuator);
  unsigned managed = 0;
  for (unsigned life = 1; life <= lives; ++life) {
    const std::string uid = "a" + std::to_string(life);
    kubelet_.list.clear();
    start("web-" + std::to_string(life), uid, life, 10);
    kubelet_.away = chance(20);
    ASSERT_TRUE(actuator->reconcile());
    if (!actuator->places()[0].absent) {
      ASSERT_TRUE(took_effect(actuator->apply(decision(life % 2 == 0 ? "0-3" : "2-5"))));
      ++managed;
    }
    if (chance(50)) {
      actuator = Error{ErrorKind::Busy, "", 0};
      actuator = open();
      ASSERT_TRUE(actuator) << actuator.error().message;
    }
    if (chance(5)) {  // the container alone
      fs::remove_all(tree_ / ("cgroup/" + scope_of(uid, life)));
      ASSERT_TRUE(actuator->reconcile());
      tree_.cgroup2(scope_of(uid, lives + life), 10);
      kubelet_.list[0].containers[0].id = id_of(lives + life);
      ASSERT_TRUE(actuator->reconcile());
    }
    stop(uid);
    ASSERT_LE(journal()["originals"].size(), 2U);
  }
  kubelet_.list.clear();
  kubelet_.away = false;
  ASSERT_TRUE(actuator->reconcile());
  EXPECT_GT(managed, lives / 2);
  EXPECT_TRUE(journal()["originals"].empty());
  EXPECT_TRUE(journal()["pending"].empty());
  EXPECT_LE(journal()["applied"].size(), 1U);
  EXPECT_TRUE(pod_directories(tree_.roots()).empty());
}

}  // namespace
}  // namespace osml
