#include <nlohmann/json.hpp>

#include "apply/actuator.h"
#include "cli/commands.h"
#include "cli/sources.h"
#include "cli/table.h"
#include "domain/json.h"

namespace osml::cli {

namespace {

using Json = nlohmann::ordered_json;

// Without a file to read, the machine is looked at as a node without services.
Result<Config> config_or_bare(const Options& options) {
  if (options.config_given || osml::exists(options.config)) return load(options);
  Config bare;
  bare.node = "unconfigured";
  if (!options.resctrl_root.empty()) bare.roots.resctrl = options.resctrl_root;
  if (!options.cgroup_root.empty()) bare.roots.cgroup = options.cgroup_root;
  if (!options.proc_root.empty()) bare.roots.proc = options.proc_root;
  if (!options.sysfs_root.empty()) bare.roots.sysfs = options.sysfs_root;
  return bare;
}

Json document(const Actuator& actuator, const Config& config) {
  Json mechanisms = Json::array();
  for (const Mechanism& one : actuator.mechanisms()) {
    mechanisms.push_back({{"name", one.name},
                          {"available", one.available},
                          {"reason", one.reason},
                          {"how_to_enable", one.how_to_enable}});
  }
  Json all{{"node", config.node},
           {"version", OSML_VERSION},
           {"platform", Json::parse(nlohmann::json(actuator.platform()).dump())},
           {"mechanisms", mechanisms}};
  add_sources(all, actuator);
  return all;
}

}  // namespace

Status probe(const Options& options, std::ostream& out) {
  const auto config = config_or_bare(options);
  if (!config) return config.error();
  const auto actuator = Actuator::open(*config, {.read_only = true});
  if (!actuator) return actuator.error();
  if (options.json) {
    out << document(*actuator, *config).dump(2) << '\n';
    return done();
  }
  const Platform& platform = actuator->platform();
  if (const std::string absent = absent_in_words(actuator->places()); !absent.empty()) {
    out << "not there: " << absent << '\n';
  }
  print_sources(out, *actuator);
  out << platform.id << ": " << platform.cores << " cores of " << platform.core_quantum << " CPU (CPUs "
      << platform.cpus << ")\n\n";
  std::vector<std::vector<std::string>> rows{{"mechanism", "available", "reason", "how to enable"}};
  for (const Mechanism& one : actuator->mechanisms()) {
    rows.push_back({one.name, one.available ? "yes" : "no", one.reason, one.how_to_enable});
  }
  print_table(out, rows);
  return done();
}

}  // namespace osml::cli
