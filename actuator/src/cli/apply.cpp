#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "apply/actuator.h"
#include "cli/commands.h"
#include "domain/json.h"

namespace osml::cli {

namespace {

// The outcome as an exit code: a refused decision is wrong input, a failed one is failed work.
Status status_of(const Outcome& outcome) {
  if (outcome.status == OutcomeStatus::Refused) return Error{ErrorKind::Input, "refused: " + outcome.message, 0};
  if (outcome.status == OutcomeStatus::RolledBack) {
    return Error{ErrorKind::Io, "rolled back, all settings are as before: " + outcome.message, 0};
  }
  if (outcome.status == OutcomeStatus::Failed) return Error{ErrorKind::Io, "failed: " + outcome.message, 0};
  return done();
}

void print(const Outcome& outcome, std::ostream& out) {
  if (outcome.status == OutcomeStatus::DryRun) {
    out << (outcome.message.empty() ? "nothing to change" : outcome.message) << '\n';
  } else if (took_effect(outcome)) {
    out << text_of(outcome.status) << (outcome.message.empty() ? "" : ": " + outcome.message) << '\n';
  }
}

}  // namespace

Status apply(const Options& options, const fs::path& decision_file, std::ostream& out) {
  const auto config = load(options);
  if (!config) return config.error();
  const auto text = read_text(decision_file);
  if (!text) return Error{ErrorKind::Input, text.error().message, text.error().code};
  const auto decision = parse_decision(*text);
  if (!decision) return decision.error().wrap(decision_file.string());
  // A dry run looks only, so it also works beside a running agent.
  auto actuator = Actuator::open(*config, {.read_only = options.dry_run, .fault_injection = options.fault_injection});
  if (!actuator) return actuator.error();
  if (!actuator->healed().empty()) spdlog::warn("{}", actuator->healed());
  const Outcome outcome = actuator->apply(*decision, options.dry_run);
  for (const auto& [name, why] : actuator->missing()) {
    if (name.starts_with("memory_nodes.")) spdlog::warn("{}: {}", name, why);
  }
  if (options.json) {
    out << nlohmann::json(outcome).dump(2) << '\n';
  } else {
    print(outcome, out);
  }
  return status_of(outcome);
}

}  // namespace osml::cli
