#include "locate/locator.h"

#include "cpu/members.h"

namespace osml {

namespace {

std::string listed(const std::vector<int>& pids) {
  std::string text;
  for (const int pid : pids) text += (text.empty() ? "" : ", ") + std::to_string(pid);
  return text;
}

void look_at_cgroup(const Config& config, Place& place) {
  const auto directory = member_directory(config.roots, *place.match.cgroup);
  const auto inode = cgroup_inode(config.roots, *place.match.cgroup);
  place.looked_at = directory.ok() && inode.ok();
  if (!directory) place.why = directory.error().message;
  if (directory && !inode) place.why = inode.error().message;
  if (inode) place.cgroup_inode = *inode;
  place.absent = directory && directory->empty();
  if (place.absent) place.why = "cgroup " + *place.match.cgroup + " does not exist";
}

void look_at_processes(const Config& config, Place& place) {
  const auto pids = member_pids(config.roots, place.match);
  place.absent = pids && pids->empty();  // a pid file that is refused is a mistake, which the sensors report
  if (!place.absent) return;
  if (!place.match.pid_file) {
    place.why = "there is no process " + listed(place.match.pids);
  } else {
    const bool there = osml::exists(*place.match.pid_file);
    place.why = there ? "the process that pid_file " + place.match.pid_file->string() + " names does not exist"
                      : "pid_file " + place.match.pid_file->string() + " does not exist";
  }
}

}  // namespace

std::vector<Place> Locator::look(const Config& config) {
  std::vector<Place> places;
  for (const ServiceConfig& service : config.services) {
    Place& place = places.emplace_back(Place{service.spec.name, service.match, false, true, {}, {}});
    if (place.match.cgroup) {
      look_at_cgroup(config, place);
    } else {
      look_at_processes(config, place);
    }
  }
  return places;
}

}  // namespace osml
