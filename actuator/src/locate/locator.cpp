#include "locate/locator.h"

#include <algorithm>

#include "cpu/members.h"
#include "locate/annotations.h"
#include "locate/cgroup_search.h"

namespace osml {

namespace {

std::string listed(const std::vector<int>& pids) {
  std::string text;
  for (const int pid : pids) text += (text.empty() ? "" : ", ") + std::to_string(pid);
  return text;
}

std::string found_by(const Match& match) {
  if (match.systemd) return "systemd " + *match.systemd;
  if (match.docker) return "docker " + *match.docker;
  return words_of(*match.pod);
}

void look_at_cgroup(const Roots& roots, Place& place) {
  const auto directory = member_directory(roots, *place.match.cgroup);
  const auto inode = cgroup_inode(roots, *place.match.cgroup);
  place.looked_at = directory.ok() && inode.ok();
  if (!directory) place.why = directory.error().message;
  if (directory && !inode) place.why = inode.error().message;
  if (inode) place.cgroup_inode = *inode;
  place.absent = directory && directory->empty();
  if (place.absent) place.why = "cgroup " + *place.match.cgroup + " does not exist";
}

void look_at_processes(const Roots& roots, Place& place) {
  const auto pids = member_pids(roots, place.match);
  place.absent = pids && pids->empty();  // a pid file that is refused is a mistake, which the sensors report
  if (!place.absent) return;
  if (!place.match.pid_file) {
    place.why = "there is no process " + listed(place.match.pids);
  } else {
    const bool there = osml::exists(*place.match.pid_file);
    place.why = there ? "the process that pid_file " + place.match.pid_file->string() +
                            " names does not exist, or it started after the file was written"
                      : "pid_file " + place.match.pid_file->string() + " does not exist";
  }
}

// Two services would set the same cgroup, or one would set that of the other along with its own. What the operator
// wrote as a path is the operator's to know; what was found is not.
void refuse_overlaps(std::vector<Place>& places) {
  for (auto place = places.begin(); place != places.end(); ++place) {
    if (place->absent || !place->match.cgroup) continue;
    const std::string& path = *place->match.cgroup;
    const auto first = std::find_if(places.begin(), place, [&](const Place& other) {
      if (other.absent || !other.match.cgroup) return false;
      const bool named = !place->match.found_by.empty() || !other.match.found_by.empty();
      return named && (is_within(path, *other.match.cgroup) || is_within(*other.match.cgroup, path));
    });
    if (first == place) continue;
    place->absent = true;
    place->why = "its cgroup " + path + " is " + (path == *first->match.cgroup ? "also that" : "not apart from that") +
                 " of service '" + first->service + "', which stands before it; expected a cgroup for each service";
  }
}

void only_watch(const ServiceConfig& service, Place& place) {
  if (!service.watched || place.absent) return;
  place.watched = place.absent = true;
  place.why = "it has no latency source, so the agent measures it and does not manage it; set " +
              (is_of_target(service) ? field_of("latency") : annotation_of("latency"));
}

}  // namespace

bool is_of_container(const Match& found) { return found.found_by.find(container_words) != std::string::npos; }

bool is_of_one_pod(const Match& found) { return found.found_by.starts_with("pod "); }

bool is_of_pod(const Match& found) {
  return found.found_by.starts_with("pod ") || found.found_by.starts_with("a pod ");  // words_of(PodMatch)
}

bool is_found_by_name(const Match& match) { return match.systemd || match.docker || match.pod; }

Locator::Locator(const Config& config, PodSource* pods)
    : config_(&config),
      asks_kubelet_(config.kubelet.discover.on() ||
                    std::any_of(config.services.begin(), config.services.end(),
                                [](const ServiceConfig& service) { return service.match.pod.has_value(); })),
      pods_(config, pods) {}

void Locator::remember_own_work(const Match& match) {
  if (match.cgroup && !match.found_by.empty()) pods_.remember_own_work(*match.cgroup);
}

void Locator::remember(const std::string& service, const Match& match) {
  if (!match.cgroup || match.found_by.empty()) return;
  for (const ServiceConfig& one : config_->services) {
    if (one.spec.name != service || !is_found_by_name(one.match) || found_by(one.match) != match.found_by) continue;
    last_[service] = *match.cgroup;
    if (one.match.pod) pods_.remember(service, *match.cgroup);
  }
}

Finding Locator::find_unit_of(const ServiceConfig& service) {
  const std::string& unit = *service.match.systemd;
  const auto last = last_.find(service.spec.name);
  if (last != last_.end() && !last->second.empty()) {
    const auto directory = member_directory(config_->roots, last->second);
    if (!directory || !directory->empty()) return {last->second, "", ""};
  }
  std::string path = find_unit(config_->roots, unit);
  if (path.empty()) return {"", "unit " + unit + " of systemd has no cgroup, so it does not run", ""};
  return {path, "", ""};
}

Finding Locator::find(const ServiceConfig& service) {
  if (service.match.systemd) return find_unit_of(service);
  if (service.match.docker) return docker_.find(config_->roots, *service.match.docker);
  return pods_.find(service.spec.name, *service.match.pod);
}

// An absent service keeps the cgroup that it had last, so that what was set there can be put back.
void Locator::find_cgroup(const ServiceConfig& service, Place& place) {
  const Finding found = find(service);
  place.match = Match{};
  place.match.found_by = found_by(service.match);
  place.note = found.note;
  std::string& last = last_[place.service];
  if (!found.path.empty()) last = found.path;
  if (!last.empty()) place.match.cgroup = last;
  if (!found.path.empty()) {
    look_at_cgroup(config_->roots, place);
  } else {
    place.absent = true;
    place.why = found.why;
  }
}

// The number of a process that has ended comes up again. An id keeps the start time that it had at first sight.
void Locator::leave_out_strangers(Place& place) {
  std::vector<int> ours;
  for (const int pid : place.match.pids) {
    const std::string start = thread_start_time(config_->roots.proc, pid);
    if (start.empty() || started_.try_emplace(pid, start).first->second == start) ours.push_back(pid);
  }
  if (ours.size() == place.match.pids.size()) return;
  if (!ours.empty()) {
    place.match.pids = std::move(ours);
    return;
  }
  place.absent = true;
  place.why = "the processes " + listed(place.match.pids) + " have ended, and others have their ids now";
}

void Locator::ask(double now_s) {
  if (asks_kubelet_) pods_.look(now_s);
}

void Locator::hear_of(const ContainerQuestion& heard, double now_s) {
  if (asks_kubelet_) pods_.hear_of(heard, now_s);
}

const Pod* Locator::asking_pod(const std::string& pod_uid) const {
  return config_->kubelet.discover.on() ? pods_.pod_with(pod_uid) : nullptr;
}

std::string Locator::service_of(const ContainerQuestion& heard) const {
  for (const ServiceConfig& service : config_->services) {
    if (!service.match.pod || service.watched) continue;
    if (pods_.would_be(service.spec.name, *service.match.pod, heard)) return service.spec.name;
  }
  return {};
}

const std::vector<const Pod*>* Locator::asking_pods() {
  return config_->kubelet.discover.on() ? pods_.running() : nullptr;
}

std::vector<Place> Locator::look() {
  std::erase_if(last_, [this](const auto& last) {
    return std::none_of(config_->services.begin(), config_->services.end(),
                        [&](const ServiceConfig& service) { return service.spec.name == last.first; });
  });
  std::vector<Place> places;
  for (const ServiceConfig& service : config_->services) {
    Place& place = places.emplace_back();
    place.service = service.spec.name;
    place.match = service.match;
    if (is_found_by_name(service.match)) {
      find_cgroup(service, place);
    } else if (place.match.cgroup) {
      look_at_cgroup(config_->roots, place);
    } else {
      leave_out_strangers(place);
      if (!place.absent) look_at_processes(config_->roots, place);
    }
  }
  refuse_overlaps(places);
  for (std::size_t i = 0; i < places.size(); ++i) only_watch(config_->services[i], places[i]);
  return places;
}

}  // namespace osml
