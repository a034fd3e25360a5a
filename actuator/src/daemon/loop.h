// One interval of the agent: reconcile, sense, ask, apply, remember. Knows nothing of timers and signals, so that tests
// turn it by hand.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/decision_client.h"
#include "config/config.h"
#include "daemon/bandwidth_watch.h"
#include "daemon/machine.h"
#include "daemon/silence.h"
#include "domain/types.h"
#include "plan/suppose.h"
#include "report/audit.h"
#include "report/turn_report.h"
#include "sense/sensors.h"

namespace osml {

// What partitions and states of policies count in.
struct Units {
  double core_quantum = 1;
  std::string mba;  // empty where there is none
  bool operator==(const Units&) const = default;
};

// What the loop remembers from turn to turn, and over a reload of the configuration.
struct Memory {
  std::uint64_t seq = 0;
  std::optional<double> last_turn_s;
  std::optional<Units> units;  // of the last observation
  std::optional<std::string> policy_state;
  std::optional<Outcome> outcome;
  std::optional<Partition> partition;  // last applied
  std::vector<Assignment> applied;     // what was read back after it
  std::optional<Supposing> supposing;  // of a dry run, from its first decision on
  Silence silence = Silence(0, 0);     // of the server; the loop begins it
};

class Loop {
 public:
  // All of them must outlive the loop. `now_s`: node time; the silence of the server counts from here.
  Loop(const Config& config, Machine& machine, DecisionSource& server, Sensors& sensors, Audit& audit, bool dry_run,
       double now_s);

  // A turn begins by putting right what others changed. That may wait for the kubelet, so the time of the turn is asked
  // for after it: what is counted until then belongs to the interval. `now`: node time in seconds.
  void turn(const std::function<double()>& now);
  // All settings as they were before the agent's first change; the audit log says what that changed. `policy` and `why`
  // are the words of its line.
  Status restore(const std::string& policy, const std::string& why, double now_s);
  // Read the sensors without a turn: a counter needs two readings before it says anything.
  void prime(double now_s);
  // Wall time that the server took in the last turn; none where it was not asked.
  [[nodiscard]] std::optional<double> server_ms() const { return report_.server_ms; }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  // What the last turn came to, for the agent's own figures.
  [[nodiscard]] const TurnReport& report() const { return report_; }
  // What the machine had at the end of the last turn.
  [[nodiscard]] const std::vector<Assignment>& assignments() const { return assignments_; }
  // Of the loop before a reload.
  void remember(Memory memory, double now_s);

 private:
  void take_turn(double now_s);
  void reconcile();
  Observation observe(double now_s);
  void follow_units(const Platform& platform);
  void note_minimums(const Observation& observation);
  void note_absent();
  void note_watched();
  // Nobody is there: nothing to ask for. Counts as an answer, so that the silence of the server begins anew.
  void idle(double now_s);
  void note_targets(const std::vector<Service>& services);
  void note_odd_target(const Service& service, double measured_ms);
  void note_infeasible(const Decision& decision);
  void note_interrupts();
  void note_missing(const std::map<std::string, std::string>& missing);
  Answer ask(const Observation& observation);
  void obey(const Decision& decision, const std::vector<Assignment>& before, double now_s);
  void tell(const Decision& decision, const Outcome& outcome, const std::vector<Assignment>& before,
            const std::vector<Assignment>& after);
  void record(const Decision& decision, const Outcome& outcome, const std::vector<Assignment>& before,
              const std::vector<Assignment>& after, double now_s);
  // `asked`: false where the server was left in peace.
  void endure(const AskError& error, double now_s, bool asked);
  // True: the fallback is in force. `first`: the first try of this silence, which is told.
  bool fall_back(double now_s, bool first);
  bool share_evenly(double now_s);
  bool stays_even(double now_s);
  bool release(double now_s);
  std::vector<Assignment> read_back();
  std::vector<Assignment> in_force();
  void suppose(const Decision& decision, const std::vector<Assignment>& before);

  const Config* config_;
  Machine* machine_;
  DecisionSource* server_;
  Sensors* sensors_;
  Audit* audit_;
  bool dry_run_;
  Memory memory_;
  std::map<std::string, std::string> missing_;  // as told last
  std::map<std::string, std::string> absent_;   // service -> why, as told last
  std::map<std::string, std::string> watched_;  // the same of those that are only watched
  std::map<std::string, std::string> notes_;    // service -> note, as told last
  std::set<std::string> compared_;              // services whose first latency was compared with the target
  std::vector<Assignment> assignments_;
  BandwidthWatch bandwidth_watch_;
  std::string reconcile_error_;  // as told last
  std::string infeasible_;       // as told last
  std::string interrupt_plan_;   // as told last
  std::string even_cpus_;        // that the fallback has divided
  bool minimums_told_ = false;
  std::string undone_;         // why the last decision was not applied, as told last
  std::string release_error_;  // as told last
  std::string restore_error_;  // as recorded last
  std::string audit_error_;    // as told last
  TurnReport report_;
};

}  // namespace osml
