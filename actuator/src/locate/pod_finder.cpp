#include "locate/pod_finder.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/cpuset.h"
#include "base/printable.h"
#include "cpu/members.h"

namespace osml {

namespace {

constexpr std::size_t longest_sentence = 400;

// What a pod says of itself goes into the log: on one line, and not much of it.
std::string shown(const std::string& text) { return printable(text, longest_sentence); }

bool is_there(const Roots& roots, const std::string& path) {
  const auto directory = member_directory(roots, path);
  return !directory || !directory->empty();  // what cannot be looked at has not gone
}

// Some process is in it, or nobody can tell.
bool runs(const Roots& roots, const std::string& path) {
  Match match;
  match.cgroup = path;
  const auto pids = member_pids(roots, match);
  return !pids || !pids->empty();
}

// CPUs that a cgroup was given; none where it was given none of its own.
std::optional<CpuSet> given_cpus(const Roots& roots, const std::string& path) {
  for (const fs::path& directory : {cgroup2_directory(roots, path), cgroup1_directory(roots, "cpuset", path)}) {
    if (directory.empty()) continue;
    const auto text = read_text(directory / "cpuset.cpus");
    const auto cpus = text ? parse_cpulist(*text) : Result<CpuSet>(text.error());
    if (cpus) return *cpus;
  }
  return std::nullopt;
}

}  // namespace

PodFinder::PodFinder(const Config& config, PodSource* source)
    : config_(&config), own_(source == nullptr ? std::make_unique<Kubelet>(config.kubelet) : nullptr), source_(source) {
  if (source_ == nullptr) source_ = own_.get();
}

bool PodFinder::forget_gone() {
  return std::erase_if(known_, [this](const auto& known) { return !is_there(config_->roots, known.second.path); }) > 0;
}

// A kubelet that starts anew while the API server is away tells no pods, or those of its own files alone. What runs on
// is no pod that has gone.
std::vector<Pod> PodFinder::with_untold(std::vector<Pod> told) const {
  std::set<std::string> uids;
  std::set<std::string> directories;
  for (const Pod& pod : told) {
    uids.insert(pod.uid);
    directories.insert(directory_of(pod));
  }
  std::vector<Pod> all = std::move(told);
  for (const Pod& pod : pods_) {
    const std::string directory = directory_of(pod);
    if (pod.over || uids.contains(pod.uid) || directory.empty() || directories.contains(directory)) continue;
    if (!runs(config_->roots, directory)) continue;
    all.push_back(pod);
    all.back().untold = true;
  }
  return all;
}

void PodFinder::look(double now_s) {
  if (unjudged_ && looked_for_) {
    const bool all_told = std::none_of(pods_.begin(), pods_.end(), [](const Pod& pod) { return pod.untold; });
    pace_.judged(all_found_ && all_told);
    unjudged_ = false;
  }
  std::vector<PodDirectory> now = pod_directories(config_->roots);
  const bool changed = now != directories_;
  directories_ = std::move(now);
  for (Pod& pod : pods_) {
    const std::string directory = pod.untold ? directory_of(pod) : std::string();
    if (!pod.untold || (!directory.empty() && runs(config_->roots, directory))) continue;
    pod.over = true;
    pod.untold = false;
  }
  const bool gone = forget_gone();
  if (changed || gone) pace_.changed(now_s);
  if (pace_.due(now_s)) ask(now_s);
  all_found_ = true;  // until find() says otherwise
}

void PodFinder::ask(double now_s) {
  auto pods = source_->pods();
  calls_.up = pods.ok();
  ++(pods ? calls_.good : calls_.failed);
  unjudged_ = false;
  const std::string error = pods ? "" : pods.error().message;
  if (!error.empty() && error_.empty()) {
    spdlog::warn("the kubelet does not tell its pods; those that are known stay managed: {}", shown(error));
  } else if (error.empty() && !error_.empty()) {
    spdlog::info("the kubelet tells its pods again");
  }
  error_ = error;
  if (!pods) {
    pace_.failed(now_s);
    return;
  }
  pace_.answered(now_s);
  unjudged_ = true;
  looked_for_ = false;
  heard_ = true;
  pods_ = with_untold(std::move(*pods));
  const auto of_no_pod = [this](const auto& one) { return pod_with(one.first.first) == nullptr; };
  std::erase_if(heard_of_, of_no_pod);
  std::erase_if(judged_, of_no_pod);
}

std::string PodFinder::directory_of(const Pod& pod) const {
  const auto named = [this](const std::string& uid) {
    const auto found =
        std::find_if(directories_.begin(), directories_.end(), [&](const PodDirectory& one) { return one.uid == uid; });
    return found == directories_.end() ? std::string() : found->path;
  };
  if (std::string own = named(pod.uid); !own.empty()) return own;
  const bool is_anothers = std::any_of(
      pods_.begin(), pods_.end(), [&](const Pod& other) { return other.uid == pod.config_hash && &other != &pod; });
  return pod.config_hash.empty() || is_anothers ? std::string() : named(pod.config_hash);
}

const std::vector<const Pod*>* PodFinder::running() {
  if (!heard_) return nullptr;
  looked_for_ = true;
  running_.clear();
  std::set<std::string> known;
  for (const Pod& pod : pods_) {
    const std::string directory = directory_of(pod);
    known.insert(directory);
    if (!pod.over && !directory.empty()) running_.push_back(&pod);
  }
  const bool all_known = std::all_of(directories_.begin(), directories_.end(),
                                     [&](const PodDirectory& one) { return known.contains(one.path); });
  if (!all_known) all_found_ = false;
  return &running_;
}

Finding PodFinder::unheard(const std::string& service, const PodMatch& match) {
  const auto known = known_.find(service);
  if (known != known_.end()) return {known->second.path, "", ""};
  all_found_ = false;
  return {"", "the kubelet has not told its pods yet, so nobody knows where " + words_of(match) + " is", ""};
}

bool PodFinder::is_of_told(const std::string& path) const {
  return std::any_of(pods_.begin(), pods_.end(), [&](const Pod& pod) {
    const std::string directory = directory_of(pod);
    return !directory.empty() && (path == directory || path.starts_with(directory + "/"));
  });
}

Finding PodFinder::find(const std::string& service, const PodMatch& match) {
  looked_for_ = true;
  if (!heard_) return unheard(service, match);
  std::vector<const Pod*> there;
  for (const Pod& pod : pods_) {
    if (!pod.over && matches(pod, match) && !directory_of(pod).empty()) there.push_back(&pod);
  }
  const bool one_stays = std::any_of(there.begin(), there.end(), [](const Pod* pod) { return !pod->goes(); });
  if (one_stays) std::erase_if(there, [](const Pod* pod) { return pod->goes(); });
  if (there.empty()) {
    all_found_ = false;
    const auto known = known_.find(service);
    if (known != known_.end() && known->second.remembered && !is_of_told(known->second.path) &&
        runs(config_->roots, known->second.path)) {
      return {known->second.path, "", ""};
    }
    return {"", words_of(match) + " does not run on this node", ""};
  }
  const Pod* chosen = there.front();
  std::string note;
  if (there.size() > 1) {
    const std::string both = shown(there[0]->full_name() + " and " + there[1]->full_name());
    const auto known = known_.find(service);
    const auto same = std::find_if(there.begin(), there.end(), [&](const Pod* pod) {
      if (known == known_.end()) return false;
      return known->second.remembered ? known->second.path.starts_with(directory_of(*pod))
                                      : known->second.uid == pod->uid;
    });
    if (same == there.end()) {
      return {"",
              std::to_string(there.size()) + " pods match, such as " + both + "; expected one, make match.pod narrower",
              ""};
    }
    chosen = *same;
    note = std::to_string(there.size()) + " pods match, such as " + both + "; the agent stays with " +
           shown(chosen->full_name());
  }
  Finding found = find_in(*chosen, service, match);
  if (chosen->untold && note.empty()) {
    note = "the kubelet no longer tells pod " + shown(chosen->full_name()) +
           ", which still runs; the agent stays with it until it ends";
  }
  if (!found.path.empty()) found.note = note;
  return found;
}

Finding PodFinder::find_in(const Pod& pod, const std::string& service, const PodMatch& match) {
  const std::string who = "pod " + shown(pod.full_name());
  std::string path = directory_of(pod);
  if (!match.container.empty()) {
    const PodContainer* container = pod.find(match.container);
    if (container == nullptr) return {"", who + " has no container '" + match.container + "'", ""};
    const std::string id = id_of(pod, *container);
    const std::string inside = id.empty() ? std::string() : find_container(config_->roots, path, id);
    if (inside.empty()) {
      all_found_ = false;
      return {"", "container '" + match.container + "' of " + who + " does not run", ""};
    }
    path = inside;
  }
  known_[service] = {path, pod.uid, false};
  const OwnCpus own = own_cpus(pod, match);
  if (own != OwnCpus::NotYet) {
    std::erase_if(set_by_agent_, [&](const std::string& one) { return is_within(one, path) || is_within(path, one); });
  }
  if (config_->kubelet.guaranteed == Guaranteed::Leave && own == OwnCpus::Yes) {
    return {"",
            who +
                " has CPUs of its own from the kubelet's CPU manager, so the agent leaves it alone; "
                "set kubelet.guaranteed to take to manage it",
            ""};
  }
  if (config_->kubelet.guaranteed == Guaranteed::Leave && own == OwnCpus::NotYet) {
    all_found_ = false;
    return {"",
            "no container of " + who +
                " runs yet, and the kubelet's CPU manager may give them CPUs of their own; the agent waits for them",
            ""};
  }
  return {path, "", ""};
}

const Pod* PodFinder::pod_with(const std::string& uid) const {
  const auto named = [&](const Pod& pod) { return pod.uid == uid; };
  auto found = std::find_if(pods_.begin(), pods_.end(), named);
  if (found == pods_.end()) {
    found = std::find_if(pods_.begin(), pods_.end(), [&](const Pod& pod) { return pod.config_hash == uid; });
  }
  return found == pods_.end() ? nullptr : &*found;
}

// The kubelet's, unless its cgroup has gone: then the runtime knows of a newer one.
std::string PodFinder::id_of(const Pod& pod, const PodContainer& container) const {
  const auto heard = heard_of_.find({pod.uid, container.name});
  if (heard == heard_of_.end()) return container.id;
  const bool stands = !container.id.empty() && !find_container(config_->roots, directory_of(pod), container.id).empty();
  return stands ? container.id : heard->second.id;
}

void PodFinder::hear_of(const ContainerQuestion& heard, double now_s) {
  const Pod* pod = pod_with(heard.pod_uid);
  if (pod == nullptr && pace_.may_ask_out_of_turn(now_s)) {
    ask(now_s);
    pod = pod_with(heard.pod_uid);
  }
  if (pod == nullptr || pod->find(heard.container) == nullptr) return;
  ContainerQuestion& known = heard_of_[{pod->uid, heard.container}];
  if (known.id != heard.id) known = heard;  // what was said first was said before anybody set anything
}

bool PodFinder::would_be(const std::string& service, const PodMatch& match, const ContainerQuestion& heard) const {
  const Pod* pod = pod_with(heard.pod_uid);
  if (pod == nullptr || pod->over || !matches(*pod, match)) return false;
  if (!match.container.empty() && match.container != heard.container) return false;
  const PodContainer* container = pod->find(heard.container);
  const bool may_own = pod->guaranteed && container != nullptr && container->whole_cpus > 0;
  const auto known = known_.find(service);
  const bool same_pod = known != known_.end() && (known->second.remembered || known->second.uid == pod->uid);
  const bool owns = may_own && says_own_cpus(*pod, *container, heard.id).value_or(has_own_cpus(*pod));
  if (owns && config_->kubelet.guaranteed == Guaranteed::Leave) return false;
  return known == known_.end() || same_pod || !is_there(config_->roots, known->second.path);
}

std::optional<bool> PodFinder::says_own_cpus(const Pod& pod, const PodContainer& container,
                                             const std::string& id) const {
  const auto heard = heard_of_.find({pod.uid, container.name});
  if (heard == heard_of_.end() || heard->second.id != id || !heard->second.kubelet_cpus) return std::nullopt;
  return !heard->second.kubelet_cpus->empty();
}

// The kubelet's static CPU manager gives them to containers of Guaranteed pods that ask for whole CPUs. Without it
// these have the CPUs of all others. So one container says it for all.
PodFinder::OwnCpus PodFinder::own_cpus(const Pod& pod, const PodMatch& match) {
  OwnCpus verdict = OwnCpus::No;
  bool shared = false;
  for (const PodContainer& container : pod.containers) {
    const bool meant = match.container.empty() || match.container == container.name;
    if (!pod.guaranteed || !meant || container.whole_cpus == 0) continue;
    const auto own = judge(pod, container);
    if (own && *own) return OwnCpus::Yes;
    if (own) shared = true;
    if (!own && !container.init) verdict = OwnCpus::NotYet;
  }
  return shared ? OwnCpus::No : verdict;
}

// Once for each container, when the kubelet alone has set something: later the CPUs are those that the agent has given.
// So it is the same for services of all names.
std::optional<bool> PodFinder::judge(const Pod& pod, const PodContainer& container) {
  const std::string id = id_of(pod, container);
  const auto before = judged_.find({pod.uid, container.name});
  if (before != judged_.end() && (id.empty() || before->second.id == id)) return before->second.own;
  if (id.empty()) return std::nullopt;
  auto own = says_own_cpus(pod, container, id);
  if (!own) {
    const std::string path = find_container(config_->roots, directory_of(pod), id);
    if (path.empty()) return std::nullopt;
    const auto cpus = given_cpus(config_->roots, path);
    // A cgroup of v1 that is made now has what its pod has: the agent may have set that, and no CPU manager.
    const bool inherited = cpus && !cpus->empty() && cpus == given_cpus(config_->roots, directory_of(pod));
    own = !is_set_by_agent(path) && !inherited && (!cpus || cpus->size() == container.whole_cpus);
  }
  judged_[{pod.uid, container.name}] = {id, *own};
  return own;
}

bool PodFinder::is_set_by_agent(const std::string& path) const {
  return std::any_of(set_by_agent_.begin(), set_by_agent_.end(),
                     [&](const std::string& one) { return is_within(path, one); });
}

bool PodFinder::has_own_cpus(const Pod& pod) const {
  return std::any_of(judged_.begin(), judged_.end(),
                     [&](const auto& one) { return one.first.first == pod.uid && one.second.own; });
}

}  // namespace osml
