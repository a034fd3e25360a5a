#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

namespace osml {

// What became of a decision on the machine.
enum class OutcomeStatus { Applied, Unchanged, Refused, RolledBack, Failed, DryRun };

struct OutcomeName {
  OutcomeStatus status;
  std::string_view text;  // on the wire, in logs and as a label of metrics
};

inline constexpr std::array<OutcomeName, 6> outcome_names = {{{OutcomeStatus::Applied, "applied"},
                                                              {OutcomeStatus::Unchanged, "unchanged"},
                                                              {OutcomeStatus::Refused, "refused"},
                                                              {OutcomeStatus::RolledBack, "rolled_back"},
                                                              {OutcomeStatus::Failed, "failed"},
                                                              {OutcomeStatus::DryRun, "dry_run"}}};

inline std::string text_of(OutcomeStatus status) {
  const auto* found = std::find_if(outcome_names.begin(), outcome_names.end(),
                                   [status](const OutcomeName& name) { return name.status == status; });
  return std::string(found->text);
}

inline std::optional<OutcomeStatus> outcome_status(std::string_view text) {
  const auto* found = std::find_if(outcome_names.begin(), outcome_names.end(),
                                   [text](const OutcomeName& name) { return name.text == text; });
  if (found == outcome_names.end()) return std::nullopt;
  return found->status;
}

inline std::ostream& operator<<(std::ostream& out, OutcomeStatus status) { return out << text_of(status); }

struct Outcome {
  std::uint64_t seq = 0;
  OutcomeStatus status = OutcomeStatus::Failed;
  std::string message;
  std::optional<double> duration_ms;
};

// The machine is as the decision says it shall be.
inline bool took_effect(const Outcome& outcome) {
  return outcome.status == OutcomeStatus::Applied || outcome.status == OutcomeStatus::Unchanged;
}

}  // namespace osml
