#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "apply/actuator.h"
#include "apply/journal.h"
#include "cli/commands.h"

namespace osml::cli {

Status restore(const Options& options, bool obey_on_exit, std::ostream& out) {
  const auto config = load(options);
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
  auto actuator = Actuator::open(*config);
  if (!actuator) return actuator.error();
  if (!actuator->healed().empty()) spdlog::warn("{}", actuator->healed());
  Status back = actuator->restore();
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
