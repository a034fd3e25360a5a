// Services that are pods: which of the kubelet's pods each is, and where its cgroup is. The kubelet's word is confirmed
// in the cgroup tree. What is known stays as long as it runs, while the kubelet is away or tells it no longer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "gate/question.h"
#include "locate/ask_pace.h"
#include "locate/cgroup_search.h"
#include "locate/kubelet.h"

namespace osml {

// Found: path; else why not, one sentence.
struct Finding {
  std::string path;
  std::string why;
  std::string note;  // something that the operator should know though it was found
};

class PodFinder {
 public:
  // `config` must outlive this. `source`: null = the kubelet of the configuration.
  PodFinder(const Config& config, PodSource* source);

  // Before the first find() of an interval, where the kubelet is asked. Node time.
  void look(double now_s);
  Finding find(const std::string& service, const PodMatch& match);
  // Whose cgroup is there, as the kubelet told them last; none while it has not told any. Asked for where any pod may
  // be a service, so that a cgroup of no known pod is a reason to ask again.
  const std::vector<const Pod*>* running();
  [[nodiscard]] bool has_heard() const { return heard_; }
  // A container that the runtime is making: the kubelet tells its id a second later only. Asks the kubelet at once for
  // a pod that it has not told yet.
  void hear_of(const ContainerQuestion& heard, double now_s);
  // Whether a container of this pod would be (a part of) the service: its cgroup need not be there.
  [[nodiscard]] bool would_be(const std::string& service, const PodMatch& match, const ContainerQuestion& heard) const;
  // By its uid, or of a static pod by its hash; null where the kubelet has not told it.
  [[nodiscard]] const Pod* pod_with(const std::string& uid) const;
  // What an agent before this one knew.
  void remember(const std::string& service, const std::string& path) { known_[service] = {path, "", true}; }
  // The CPUs of this cgroup come from an agent, under whatever name the service had then.
  void remember_own_work(const std::string& path) {
    set_by_agent_.insert(path);
    judged_.clear();
  }

  struct Calls {
    bool up = false;  // the last one
    std::uint64_t good = 0, failed = 0;
  };
  [[nodiscard]] const Calls& calls() const { return calls_; }

 private:
  // Whether the kubelet gave CPUs to a container.
  struct Judged {
    std::string id;
    bool own = false;
  };
  enum class OwnCpus { No, Yes, NotYet };
  struct Known {
    std::string path;
    std::string uid;
    bool remembered = false;  // not heard of from the kubelet yet
  };
  void ask(double now_s);
  // And the pods of the last list that run on though they are told no longer.
  [[nodiscard]] std::vector<Pod> with_untold(std::vector<Pod> told) const;
  [[nodiscard]] bool is_of_told(const std::string& path) const;
  [[nodiscard]] std::string id_of(const Pod& pod, const PodContainer& container) const;
  // What the runtime said of the CPUs of the container with this id; none where it did not.
  [[nodiscard]] std::optional<bool> says_own_cpus(const Pod& pod, const PodContainer& container,
                                                  const std::string& id) const;
  // Forgets those whose cgroup has gone; true where there were any.
  bool forget_gone();
  [[nodiscard]] std::string directory_of(const Pod& pod) const;
  Finding find_in(const Pod& pod, const std::string& service, const PodMatch& match);
  Finding unheard(const std::string& service, const PodMatch& match);
  OwnCpus own_cpus(const Pod& pod, const PodMatch& match);
  // None where nobody can tell yet.
  std::optional<bool> judge(const Pod& pod, const PodContainer& container);
  [[nodiscard]] bool is_set_by_agent(const std::string& path) const;
  // Some container of the pod was judged to have CPUs of its own.
  [[nodiscard]] bool has_own_cpus(const Pod& pod) const;

  const Config* config_;
  std::unique_ptr<PodSource> own_;
  PodSource* source_;
  AskPace pace_;
  Calls calls_;
  std::string error_;  // as told last
  bool heard_ = false;
  bool unjudged_ = false;    // the pace does not know what the last answer was good for
  bool looked_for_ = false;  // services, in that answer
  bool all_found_ = false;
  std::vector<Pod> pods_;
  std::vector<const Pod*> running_;
  std::vector<PodDirectory> directories_;
  std::map<std::string, Known> known_;                            // by service
  std::map<std::pair<std::string, std::string>, Judged> judged_;  // by uid and container
  std::set<std::string> set_by_agent_;  // cgroups not judged yet whose CPUs are of an agent before this one
  std::map<std::pair<std::string, std::string>, ContainerQuestion> heard_of_;  // by uid and container: the newest
};

}  // namespace osml
