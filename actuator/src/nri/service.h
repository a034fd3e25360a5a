// The plugin as a process: the socket of the runtime, connected again where it went away, and the gate to the agent.
#pragma once

#include <string>

#include "base/files.h"
#include "base/result.h"
#include "nri/plugin.h"

namespace osml::nri {

struct ServiceOptions {
  fs::path socket = "/var/run/nri/nri.sock";
  fs::path state_dir;
  PluginName name;
  std::string all_cpus;
  double patience_s = 0.7;  // for an answer of the agent, while a container waits
};

// Until SIGTERM or SIGINT, which end it well.
Status run_service(const ServiceOptions& options);

}  // namespace osml::nri
