#include "cli/commands.h"

namespace osml::cli {

Result<Config> load(const Options& options) {
  auto config = load_config(options.config);
  if (!config) return config;
  Roots& roots = config->roots;
  if (!options.resctrl_root.empty()) roots.resctrl = options.resctrl_root;
  if (!options.cgroup_root.empty()) roots.cgroup = options.cgroup_root;
  if (!options.proc_root.empty()) roots.proc = options.proc_root;
  if (!options.sysfs_root.empty()) roots.sysfs = options.sysfs_root;
  return config;
}

}  // namespace osml::cli
