// Services that are containers of Docker, by name or by the beginning of their id. Docker itself is not asked: the
// names are in files that only root can read.
#pragma once

#include <map>
#include <string>

#include "config/config.h"
#include "locate/pod_finder.h"

namespace osml {

class DockerFinder {
 public:
  Finding find(const Roots& roots, const std::string& name_or_id);

 private:
  std::map<std::string, std::string> ids_;  // by name, as found last
};

}  // namespace osml
