#include "base/files.h"
#include "cli/commands.h"
#include "nri/service.h"
#include "report/log.h"

namespace osml::cli {

Status nri(const Options& options, const Nri& wanted) {
  const auto config = load(options);
  if (!config) return config.error();
  configure_log(config->log);
  osml::nri::ServiceOptions service;
  service.socket = wanted.socket;
  service.state_dir = config->state_dir;
  service.name.index = wanted.index;
  service.patience_s = wanted.wait_s;
  const auto online = read_text(config->roots.sysfs / "devices/system/cpu/online");
  if (!online) return online.error().wrap("the CPUs of this machine");
  service.all_cpus = *online;
  return osml::nri::run_service(service);
}

}  // namespace osml::cli
