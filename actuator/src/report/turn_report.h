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
#include "node/interrupts.h"

namespace osml {

enum class AgentState { Deciding, Holding, FallenBack };
enum class KernelWork { Read, Reconcile, Apply, Restore };
constexpr std::size_t kernel_works = 4;

struct TurnReport {
  AgentState state = AgentState::Deciding;
  std::optional<AskFailure> failure;            // why there was no decision
  std::string failure_in_words;                 // the same for people
  std::optional<Outcome> outcome;               // of the server's decision, or of the fallback `even`
  std::array<unsigned, kernel_works> kernel{};  // errors, by KernelWork
  bool idle = false;                            // no service is there, so nothing was asked
  bool overdue = false;                         // there was no decision for longer than hold_s
  bool fell_back = false;                       // the same, since this turn
  bool changed_by_others = false;               // somebody else moved what was applied
  bool infeasible = false;                      // the policy says that this node can't satisfy its services
  std::string infeasible_words;                 // its message
  std::vector<std::string> infeasible_services;
  // Services with a target that are there: those that meet it, those that miss it, those without a latency.
  std::vector<std::string> met, missed, unmeasured;
  std::optional<double> server_ms;    // wall time of the question
  std::vector<std::string> missing;   // keys of Observation.missing
  std::vector<std::string> services;  // all that were looked for
  std::vector<std::string> absent;    // services that are not there
  std::vector<std::string> watched;   // services that are only watched
  InterruptReport interrupts;
  Host host;                                  // of this interval
  std::map<std::string, double> run_delay_s;  // waits for a CPU in this interval, by service

  void count(KernelWork work) { ++kernel.at(static_cast<std::size_t>(work)); }
};

}  // namespace osml
