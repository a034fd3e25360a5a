#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apply/actuator.h"
#include "apply/journal.h"
#include "base/trust.h"
#include "cli/commands.h"
#include "gate/gate.h"

namespace osml::cli {

namespace {

// A wrong configuration must not keep what is in force in force: the journal says enough to end it.
Result<Config> config_of_journal(const Options& options) {
  Config config;
  const char* of_service = std::getenv("STATE_DIRECTORY");  // of the service manager
  if (of_service != nullptr && *of_service != '\0') config.state_dir = of_service;
  if (!options.state_dir.empty()) config.state_dir = options.state_dir;
  const fs::path path = config.state_dir / "journal.json";
  if (!osml::exists(path)) {
    return Error{ErrorKind::Gone, path.string() + " does not exist, so there is nothing to restore by it", ENOENT};
  }
  if (Status trusted = refuse_untrusted(path, "journal"); !trusted) return trusted.error();
  const auto journal = load_journal(path);
  if (!journal) return journal.error();
  if (journal->roots) config.roots = *journal->roots;
  override_roots(options, config.roots);
  config.on_exit = journal->leave ? OnExit::Leave : OnExit::Restore;
  return config;
}

Result<Config> config_to_restore(const Options& options) {
  if (!options.state_dir.empty()) return config_of_journal(options);
  auto config = load(options);
  if (config || config.error().kind != ErrorKind::Input) return config;
  auto known = config_of_journal(options);
  if (!known) return config;
  spdlog::warn("{}\nthe configuration cannot be used, so the agent restores by the journal in {}",
               config.error().message, known->state_dir.string());
  return known;
}

// A configuration that can be read may be of no use here: its curve has gone, its CPUs are offline.
Result<Actuator> open_to_restore(const Options& options, const Config& config) {
  auto actuator = Actuator::open(config);
  if (actuator || actuator.error().kind == ErrorKind::Busy) return actuator;
  Options by_journal = options;
  by_journal.state_dir = config.state_dir;
  const auto known = config_of_journal(by_journal);
  if (!known) return actuator;
  auto again = Actuator::open(*known);
  if (!again) return actuator;
  spdlog::warn("{}\nthe configuration cannot be used here, so the agent restores by the journal in {}",
               actuator.error().message, known->state_dir.string());
  return again;
}

// An NRI plugin without an agent would keep the CPUs of the last decision, and the runtime would set them again.
void tell_runtime(const fs::path& state_dir) {
  if (!osml::exists(state_dir / plugin_socket)) return;
  const auto gate = Gate::open(state_dir);  // this process holds the lock of the directory, so no agent has it
  if (gate) {
    (void)(*gate)->tell({});
  } else {
    spdlog::warn("the NRI plugin was not told that the settings are restored: {}", gate.error().message);
  }
}

}  // namespace

Status restore(const Options& options, bool obey_on_exit, std::ostream& out) {
  const auto config = config_to_restore(options);
  if (!config) return config.error();
  if (obey_on_exit && config->on_exit == OnExit::Leave) return done();
  if (options.dry_run) {
    const auto journal = load_journal(config->state_dir / "journal.json");
    if (!journal) return journal.error();
    nlohmann::json list = nlohmann::json::array();
    for (const Saved& saved : journal->originals) {
      list.push_back({{"service", saved.name.service}, {"setting", name_of(saved.name.aspect)}});
      if (!options.json) out << "would restore " << saved.name.service << ": " << name_of(saved.name.aspect) << '\n';
    }
    if (options.json) out << nlohmann::json{{"status", "dry_run"}, {"would_restore", list}}.dump(2) << '\n';
    return done();
  }
  auto actuator = open_to_restore(options, *config);
  if (!actuator) return actuator.error();
  if (!actuator->healed().empty()) spdlog::warn("{}", actuator->healed());
  Status back = actuator->restore();
  tell_runtime(config->state_dir);
  if (options.json) {
    out << nlohmann::json{{"status", back ? "restored" : "failed"}, {"message", back ? "" : back.error().message}}.dump(
               2)
        << '\n';
  } else if (back) {
    out << "restored the settings from before the first change\n";
  }
  return back;
}

}  // namespace osml::cli
