// The parts of the configuration file, one reader each. They add what is wrong to the section's problems.
#pragma once

#include "config/config.h"
#include "config/yaml_section.h"

namespace osml {

// `base` is the directory of the file: relative paths in it start there.
ServerConfig read_server(const YAML::Node& node, const fs::path& base, Problems& problems);
Roots read_roots(const YAML::Node& node, const fs::path& base, Problems& problems);
CpuConfig read_cpu(const YAML::Node& node, Problems& problems);
PlatformHints read_platform_hints(const YAML::Node& node, Problems& problems);
BandwidthConfig read_bandwidth(const YAML::Node& node, const fs::path& base, Problems& problems);
// The names of the disks go into `roots`.
LeversConfig read_levers(const YAML::Node& node, Roots& roots, Problems& problems);
MetricsConfig read_metrics(const YAML::Node& node, const fs::path& base, Problems& problems);
KubeletConfig read_kubelet(const YAML::Node& node, const fs::path& base, Problems& problems);
LogConfig read_log(const YAML::Node& node, Problems& problems);
Match read_match(const YAML::Node& node, const std::string& path, const fs::path& base, Problems& problems);
std::vector<ServiceConfig> read_services(const YAML::Node& node, const fs::path& base, Problems& problems);

}  // namespace osml
