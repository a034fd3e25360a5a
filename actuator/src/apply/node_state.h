// What the actuator knows of the node between two calls: configuration, what the machine offers, the journal, and
// what was applied last.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apply/actuator.h"
#include "apply/journal.h"
#include "apply/transaction.h"
#include "bandwidth/mba_curve.h"
#include "levers/cpufreq.h"
#include "locate/discovery.h"
#include "locate/locator.h"
#include "locate/target_book.h"
#include "node/clocks.h"
#include "node/interrupts.h"
#include "node/knobs.h"
#include "node/platform.h"
#include "plan/cpu_user.h"
#include "plan/memory_nodes.h"

namespace osml {

using ClockLimits = std::map<std::string, std::string>;  // MHz, by domain

// A clock domain or an interrupt, and what it is to have.
struct PartValue {
  const KnobSet* part = nullptr;
  std::string value;
};

// Times are node time.
struct InterruptState {
  Interrupts found;
  double look_again_s = 0;
  double set_again_s = 0;                   // what others wrote
  InterruptNames refused;                   // the kernel lets nobody move these
  std::map<std::string, std::string> held;  // part -> the CPUs that the agent set
  std::set<std::string> displaced;          // of these, those that are on CPUs of services at the moment
  std::uint64_t moved_by_others = 0;
  std::string plan;  // of the last decision, in words
};

struct Actuator::State {
  State(Config configuration, ActuatorOptions with)
      : configured(std::move(configuration)),
        config(&configured),
        options(std::move(with)),
        locator(configured, options.pods),
        curve(options.curve) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  State(State&&) = delete;
  State& operator=(State&&) = delete;
  ~State() = default;

  Config configured;  // its services are those of the file and then those that pods ask for
  const Config* config;
  TargetBook targets;
  bool targets_unsaved = false;  // the file does not have them
  Discovered discovered;
  std::vector<ServiceConfig> found_before;  // as the journal says, until the kubelet has told its pods
  bool pods_are_told = false;               // by the kubelet, since the start
  std::set<std::string> unasked;            // services that no pod asks for any more, until nothing of them is left
  ActuatorOptions options;
  Locator locator;
  Fd lock;  // state_dir/lock, held as long as this lives
  Result<resctrl::Info> resctrl = Error{ErrorKind::Unsupported, "not probed yet", 0};
  Topology topology;
  std::vector<NumaNode> numa;  // empty: all CPUs have the same memory
  std::string numa_lists;      // what the kernel said when they were read
  NodePatience node_patience;
  Platform platform;
  std::vector<Place> places;
  std::set<std::string> excused;  // services that were not there when the last observation was made
  std::vector<KnobSet> knobs;     // of the services, in the order of `places`
  Clocks clocks;                  // of the CPUs; without domains they are looked for at the next refresh()
  InterruptState interrupts;
  std::vector<Mechanism> mechanisms;
  std::map<std::string, std::string> missing;
  std::string healed;
  Journal journal;                     // as it is on the disk, up to the call that is under way
  bool journal_unsaved = false;        // the disk had no room: the next interval saves it
  std::optional<unsigned> group_room;  // cache groups that the agent may have; none = it makes none
  int overwritten = 0;                 // looks at cgroups to which somebody else may have written
  bool machine_changed = false;        // CPUs or cache domains have come or gone since the last reconcile()
  bool regroup = false;                // a cache group has gone, and is not whole again
  CrashPoint crash;
  std::optional<MbaCurve> curve;  // decisions are in MB/s, the kernel's settings are not

  // Looks at the machine again: resctrl, knobs, platform.
  Status refresh();
  void look_for_memory();
  // The list of services as the pods of now ask for it. Between an observation and its decision it stays.
  void follow_pods();
  // LatencyTargets that an agent before this one heard of: a restart shall not let go what they ask for.
  void remember_targets();
  void forget_targets() const;
  void take_targets(TargetNews news);
  // Whether a service may come of this pod.
  [[nodiscard]] bool may_become_service(const std::string& pod_uid);
  [[nodiscard]] double node_time_s() const;
  // refresh(), for an observation: decisions that come of it need not name those who are absent now.
  Status look();
  // Looks once more, with what the journal knows of places.
  Status remember_places();
  // Lock of state_dir, journal, and undoing what a crash left behind.
  Status take_over();
  Status heal();
  // For whoever sets or restores everything: what could not be undone, which is nothing to undo any more.
  std::vector<Saved> give_up_undoing();
  // What has its original again, all but those that are kept, is not to be undone as well: that would set it once more.
  void forget_undoing(const std::vector<Saved>& all, const std::vector<Saved>& kept);
  // Forgets what a reboot has undone, and says so.
  Status drop_stale();
  // Restores the originals that `goes` picks, and saves the journal where there were any. What cannot be restored stays
  // in it for the end; `back` says why.
  struct GivenBack {
    std::size_t restored = 0;
    Status back = done();
  };
  Result<GivenBack> give_back(const std::function<bool(const KnobName&)>& goes);
  // Restores what was set for services that the configuration no longer has, or has elsewhere or by another backend.
  Status restore_strays();
  [[nodiscard]] bool is_stray(const KnobName& name) const;
  // Of a pod that may ask for it still: nobody knows before the kubelet has told its pods.
  [[nodiscard]] bool may_be_asked_for(const std::string& service, const Match& match) const;
  // The same of what was applied, as long as the service is not there for us.
  [[nodiscard]] bool is_untold_pod(const Applied& applied) const;
  // The service that such a container was a part of; empty where it was of none.
  [[nodiscard]] std::string untold_service_of(const ContainerQuestion& heard) const;
  void say(const std::string& sentence);  // into `healed`
  // heal() while the agent runs: the log has what it said.
  Status heal_and_tell();
  // Where restoring looks: budgets are also there where the regulator is off by now.
  [[nodiscard]] Roots roots_to_restore() const;
  static fs::path journal_path(const fs::path& state_dir) { return state_dir / "journal.json"; }
  [[nodiscard]] fs::path journal_path() const { return journal_path(config->state_dir); }
  [[nodiscard]] fs::path targets_path() const { return config->state_dir / "latency-targets.json"; }
  // What the last agent left, where nobody else can have written it.
  static Result<Journal> read_journal(const fs::path& path);
  // Makes the directory where it is missing. Busy where another agent uses it.
  static Result<Fd> lock_directory(const fs::path& state_dir);
  Status keep_journal();
  // restore_all(), and without the lock on the resctrl tree all that is not in it.
  Status restore_saved(std::vector<Saved>& saved) const;
  // The advisory lock on the resctrl tree, where there is one.
  [[nodiscard]] Result<Fd> lock_resctrl() const;
  [[nodiscard]] std::optional<resctrl::Info> resctrl_info() const;
  void set_group_room(Platform& now);
  [[nodiscard]] bool throttles_in_software() const;
  // The range of throttles that decisions may use.
  void set_throttle(Platform& now) const;
  // What decisions may ask of the clock, and why not.
  void add_clocks(Platform& now);
  // Adds the nodes of its memory to what each service gets. Who gets more than those near its CPUs is in `missing`.
  Status add_memory(std::map<std::string, Wanted>& wanted);
  // Adds each clock domain to what the services get: with its value, or with nothing where it is to be as found.
  Status add_clock_limits(std::map<std::string, Wanted>& wanted, ClockKnob::Reach reach = ClockKnob::Reach::Now) const;
  // Domains follow the services on their CPUs, and CPUs that come back.
  Status follow_clocks();
  // What a domain gets for a limit of so many MHz; nothing where that is no limit.
  [[nodiscard]] Result<std::optional<std::string>> clock_value(const KnobSet& set, std::uint64_t mhz,
                                                               ClockKnob::Reach reach) const;
  // The clock that a service may reach, MHz, where the agent limits all its CPUs.
  [[nodiscard]] std::optional<std::uint64_t> clock_of(const std::string& cpus,
                                                      const Result<ClockLimits>& in_force) const;
  // What the last decision set.
  [[nodiscard]] Result<ClockLimits> clocks_in_force(ClockKnob::Reach reach) const;
  // What transactions can set: the knobs of the services, then those of clock domains and of interrupts.
  [[nodiscard]] std::vector<const KnobSet*> all_knobs() const;
  // Services that are there, with the CPUs and the clock that they get.
  [[nodiscard]] std::vector<CpuUser> users_of(const std::map<std::string, Wanted>& wanted) const;
  // What the last decision set, by service.
  [[nodiscard]] std::map<std::string, Wanted> applied_values() const;
  // Between decisions: these have the value, and those are as found.
  Status set_parts(const std::vector<PartValue>& parts);
  Status release_parts(const std::vector<const KnobSet*>& parts);
  void look_for_interrupts();
  // Adds each interrupt to what the services get: with its CPUs, or with nothing where it is to be as found.
  Status add_interrupts(std::map<std::string, Wanted>& wanted) const;
  void note_interrupt_plan(const std::map<std::string, Wanted>& wanted);
  [[nodiscard]] InterruptReport interrupt_report() const;
  Status leave_interrupts();
  [[nodiscard]] bool is_where_put(const std::string& part);
  [[nodiscard]] bool is_of_same_device(const KnobSet& set) const;
  // Interrupts follow the services on their CPUs.
  Status follow_interrupts();
  // `moved`: by others, to CPUs of services, and there still.
  void tell_of_interrupts(const std::vector<std::string>& moved);
  // Without the assignments of services that are not there.
  [[nodiscard]] Decision about_present(const Decision& decision) const;
  // What the knobs get: an assignment in the kernel's units.
  [[nodiscard]] Wanted wanted_of(const Assignment& assignment) const;

  // What each service's knobs get, with groups shared where there are too few.
  [[nodiscard]] std::map<std::string, Wanted> wanted_of(const Decision& decision) const;
  // The same, with the ways of the host for a guest.
  [[nodiscard]] std::map<std::string, Wanted> last_decided() const;
  // One sentence where the decision needs more cache groups than there are.
  [[nodiscard]] std::optional<std::string> groups_refusal(const Decision& decision) const;
  // Services whose traffic the agent itself counts, so that nobody else may be in their group.
  [[nodiscard]] std::set<std::string> alone(const std::map<std::string, Wanted>& wanted) const;
  // Whose cache group the service is in: its own set where it has one.
  [[nodiscard]] const KnobSet& host_of(const KnobSet& set) const;
  // Another service is in the cache group of this one.
  [[nodiscard]] bool shares_group(const std::string& service) const;
  Result<std::vector<Prepared>> prepare(const std::map<std::string, Wanted>& wanted) const;
  // Of one knob; none where it has what it is to have.
  [[nodiscard]] Result<std::optional<Prepared>> change_of(const KnobSet& set, Knob& knob, const Wanted& values,
                                                          const ClockLimits& limits) const;
  [[nodiscard]] bool keeps_group(Aspect aspect) const;
  // Adds what is found to the journal, for every knob that is to be set and was not set before.
  Status note_originals(const std::map<std::string, Wanted>& wanted);
  // Writes the journal, executes, settles the journal.
  Outcome commit(const Decision& decision, const std::map<std::string, Wanted>& wanted,
                 const std::vector<Prepared>& changes, const std::vector<Step>& steps);
  // A decision that changes nothing may be the first to name a setting, or the last.
  Status settle(const std::map<std::string, Wanted>& wanted);
  void remember(const std::map<std::string, Wanted>& wanted);
  Status reapply();
  // Somebody removed a cache group, or mounted resctrl anew.
  [[nodiscard]] bool has_lost_group() const;
  // A service that was started anew has none of what the last decision set.
  Status follow_cgroups();
  Status set_again(const KnobSet& set, const Wanted& values);
  // What was set for a service that has gone, and its group, are removed; the last decision is kept for its return.
  Status leave_absent();
  void forget_unasked();
  [[nodiscard]] bool is_left(const KnobName& name) const;
  // The service has another backend for this by now: a cpuset instead of the affinity of its threads.
  [[nodiscard]] bool is_superseded(const KnobName& name) const;
  [[nodiscard]] bool hosts_others(const std::string& service) const;
  Status follow_tasks();
  // Memory goes with services that were started anew, and to more nodes where its own get full.
  Status follow_memory();
  Status monitor_only_groups();
};

// bandwidth.curve; none where none is configured, or the kernel has no throttle that it could be about. An error where
// the kernel's unit is not the curve's.
Result<std::optional<MbaCurve>> read_curve(const Config& config, const Result<resctrl::Info>& info);

}  // namespace osml
