// Where a service is on this machine in this interval. Knobs, sensors and journal know a service by its place alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/config.h"

namespace osml {

struct Place {
  std::string service;
  Match match;
  bool absent = false;    // no cgroup, no process: nothing to measure and nothing to set until it is there
  bool looked_at = true;  // false: nobody can tell whether it exists
  std::string why;        // where it is absent, or nobody can tell: one sentence
  std::optional<std::uint64_t> cgroup_inode;
  std::string note;      // something that the operator should know of a service that is there
  bool watched = false;  // it is there, to be measured alone: for everything else it is absent
};

// "redis (cgroup system.slice/redis.service does not exist), web (...)"; empty where all are there.
std::string absent_in_words(const std::vector<Place>& places);
// For commands that look once.
Error absent_error(const std::string& in_words);
[[nodiscard]] const Place* place_of(const std::vector<Place>& places, const std::string& service);

}  // namespace osml
