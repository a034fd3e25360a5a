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
// `node`: kubelet.discover.
DiscoverConfig read_discover(const YAML::Node& node, const fs::path& base, Problems& problems);
// `node`: the name of this node on the server, which is also that in the cluster unless the section says otherwise.
KubernetesConfig read_kubernetes(const YAML::Node& yaml, const std::string& node, const fs::path& base,
                                 Problems& problems);
LogConfig read_log(const YAML::Node& node, Problems& problems);
Match read_match(const YAML::Node& node, const std::string& path, const fs::path& base, Problems& problems);
// Those of cores and ways, which policies know of too, go into `service`.
Limits read_limits(const YAML::Node& node, const std::string& path, Service& service, Problems& problems);
std::vector<ServiceConfig> read_services(const YAML::Node& node, const fs::path& base, Problems& problems);

}  // namespace osml
