#include "cli/commands.h"

namespace osml::cli {

void override_roots(const Options& options, Roots& roots) {
  if (!options.resctrl_root.empty()) roots.resctrl = options.resctrl_root;
  if (!options.cgroup_root.empty()) roots.cgroup = options.cgroup_root;
  if (!options.proc_root.empty()) roots.proc = options.proc_root;
  if (!options.sysfs_root.empty()) roots.sysfs = options.sysfs_root;
}

Result<Config> load(const Options& options) {
  auto config = load_config(options.config);
  if (config) override_roots(options, config->roots);
  return config;
}

}  // namespace osml::cli
