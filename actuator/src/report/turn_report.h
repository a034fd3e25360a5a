// What one turn came to, as the agent's own metrics count it.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/decision_client.h"
#include "domain/types.h"

namespace osml {

enum class AgentState { Deciding, Holding, FallenBack };
enum class KernelWork { Read, Reconcile, Apply, Restore };
constexpr std::size_t kernel_works = 4;

struct TurnReport {
  AgentState state = AgentState::Deciding;
  std::optional<AskFailure> failure;            // why there was no decision
  std::optional<Outcome> outcome;               // of the server's decision, or of the fallback `even`
  std::array<unsigned, kernel_works> kernel{};  // errors, by KernelWork
  bool fell_back = false;                       // in this turn
  bool changed_by_others = false;               // somebody else moved what was applied
  bool infeasible = false;                      // the policy says that this node can't satisfy its services
  std::optional<double> server_ms;              // wall time of the question
  std::vector<std::string> missing;             // keys of Observation.missing
  std::vector<std::string> absent;              // services that are not there
  Host host;                                    // of this interval
  std::map<std::string, double> run_delay_s;    // waits for a CPU in this interval, by service

  void count(KernelWork work) { ++kernel.at(static_cast<std::size_t>(work)); }
};

}  // namespace osml
