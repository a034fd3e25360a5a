// The machine as the daemon and the commands see it: what it has, how it is divided, and one way to change that.
// Everything that writes goes through apply(), reconcile() or restore(); each leaves the journal in state_dir such
// that a crash at any point is healed by the next open(). One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bandwidth/mba_curve.h"
#include "base/result.h"
#include "config/config.h"
#include "domain/types.h"
#include "gate/question.h"
#include "locate/discovery.h"
#include "locate/place.h"
#include "locate/pod_finder.h"
#include "locate/target_book.h"
#include "node/interrupts.h"
#include "node/mechanisms.h"

namespace osml {

struct ActuatorOptions {
  // True: the caller only looks (probe, show). No lock is taken, nothing is healed, apply/restore/reconcile refuse.
  bool read_only = false;
  // Honour OSML_CRASH_AFTER_STEP (crash tests only).
  bool fault_injection = false;
  // Who tells the pods of this node, and outlives the actuator; null = the kubelet of the configuration.
  PodSource* pods = nullptr;
  // The curve as it was read before, in place of the file.
  std::optional<MbaCurve> curve = {};
};

class Actuator {
 public:
  // Takes the lock of state_dir (Busy where another agent holds it), undoes a transaction that a crash left behind,
  // probes the mechanisms and reads the platform. Keeps a copy of the configuration.
  static Result<Actuator> open(const Config& config, ActuatorOptions options = {});
  // Whether the files that open() would read for this configuration can be used, those of state_dir too. Touches
  // nothing. `read_only` as in the options.
  static Status check_files(const Config& config, bool read_only = false);
  // Whether the state directory can be made and no agent uses it.
  static Status check_lock(const Config& config);

  Actuator(Actuator&& other) noexcept;
  Actuator& operator=(Actuator&& other) noexcept;
  Actuator(const Actuator&) = delete;
  Actuator& operator=(const Actuator&) = delete;
  ~Actuator();  // releases the lock; restores nothing (call restore())

  // The regulator is on, and the machine has no MBA: budgets are in MB/s, and nobody else enforces them.
  [[nodiscard]] bool throttles_in_software() const;

  // As of open() or the last reconcile(), which sees CPUs and cache domains come and go.
  [[nodiscard]] const Platform& platform() const;
  // Mechanism -> why this node does not have it. Goes into Observation.missing together with the sensors' own.
  [[nodiscard]] const std::map<std::string, std::string>& missing() const;
  [[nodiscard]] const std::vector<Mechanism>& mechanisms() const;
  // What open() found to heal, one sentence; empty where the last run ended cleanly.
  [[nodiscard]] const std::string& healed() const;

  // Where the services are, in the configuration's order, as of open(), look() or reconcile().
  [[nodiscard]] const std::vector<Place>& places() const;

  // The configuration, whose services are as of look() or reconcile(): those of the file and then those that pods ask
  // for. The address stays as long as the actuator's state.
  [[nodiscard]] const Config& config() const;
  [[nodiscard]] const Discovered& discovered() const;
  // bandwidth.curve as it was read; none where this machine needs none.
  [[nodiscard]] const std::optional<MbaCurve>& curve() const;

  // LatencyTargets in force. They stay until the API server says otherwise, over a restart too; news takes effect with
  // the next look() or reconcile().
  [[nodiscard]] const TargetBook& targets() const;
  void take_targets(TargetNews news);

  // As of the last apply() or reconcile().
  [[nodiscard]] InterruptReport interrupts() const;

  // How asking the kubelet went; null where it is not asked.
  [[nodiscard]] const PodFinder::Calls* kubelet() const;

  // The partition as it stands on the machine, one assignment for each service that is there, in the configuration's
  // order.
  // An absent field: not set for this service (it inherits) or not available here.
  Result<std::vector<Assignment>> read();

  // One transaction: validate, plan, journal, execute, read back. Never throws, never leaves half of a decision:
  // the outcome says applied, unchanged, refused (the decision is wrong; nothing was touched), rolled_back (a step
  // failed; everything is as before), failed (the undo failed too; the message names what is left) or dry_run
  // (message = the steps, one a line).
  // Assignments of services that are not there are passed over. Services that were not there at the last look() or
  // reconcile() need no assignment.
  // `held`: what the steps of a dry run begin at; else they begin at what the kernel has.
  Outcome apply(const Decision& decision, bool dry_run = false, const std::vector<Assignment>& held = {});

  // Once per tick where nothing may be written: looks for services, CPUs and cache domains anew.
  Status look();

  // Once per tick: takes threads born meanwhile into their service's group and affinity mask, re-applies masks after
  // CPUs or cache domains came back, removes what was set for services that have gone. Bounded work; errors are of the
  // kind "could not", nothing to undo.
  Status reconcile();

  // A container that the runtime is about to start. Stage Look: which service it is of, and the CPUs that this has.
  // Stage Start: its cgroup is there and its program waits, so what the service has is set now. Needs no decision: a
  // service that has none gets its first one in the next interval.
  Result<ContainerAnswer> hear_of(const ContainerQuestion& question);

  // Service -> CPUs that the last decision gave it, of services that are one container of a pod: their cgroup is the
  // runtime's, which writes to it. The cgroup of a whole pod is the kubelet's, and its containers inherit from it.
  [[nodiscard]] CpusInForce cpus_in_force() const;
  // The runtime updates containers, and then it writes all that it knows of them: quota, weight and memory too. The
  // next reconcile() sets again what differs.
  void expect_overwriting();

  // Back to what was found before the first change: CPU sets, quota, weights, affinity, resctrl groups. Idempotent;
  // services that have gone are skipped. Also what the fallback `release` does: apply() works again afterwards.
  Status restore();

  // The fallback `even`: contiguous equal shares of CPUs (or quota) and ways within the operator's limits.
  [[nodiscard]] Decision even_decision() const;

  // The resctrl group directory whose mon_data belongs to the service: <root>/osml-<service>, or its monitoring
  // group where the machine monitors but does not allocate. Empty where it does not exist.
  [[nodiscard]] std::string monitor_group(const std::string& service) const;

 private:
  struct State;
  explicit Actuator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace osml
