// Which knobs each service has on this machine: the best backend that is available for each aspect, and why the
// others are not.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/knob.h"
#include "config/config.h"
#include "locate/place.h"
#include "resctrl/info.h"

namespace osml {

// What names a knob in the journal.
struct KnobName {
  std::string service;  // or a part of the machine (is_machine_part)
  Aspect aspect = Aspect::Cpus;
  std::string backend;  // cgroup2 | cgroup2-idle | cgroup1 | affinity | resctrl | regulator | sched | cpufreq | irq
  Match match;
  std::optional<std::uint64_t> cgroup_inode;  // of that cgroup; a later one at the same path is another
};

// What belongs to no service stands in the place of one: a clock domain or an interrupt.
bool is_machine_part(std::string_view name);

// Whether both set the same thing. A group of resctrl belongs to a service, whoever its tasks are.
bool same_knob(const KnobName& a, const KnobName& b);

struct KnobSet {
  std::string service;
  Match match;
  bool job = false;       // of class be
  bool absent = false;    // see Place
  bool looked_at = true;  // false: nobody can tell whether it exists
  std::optional<std::uint64_t> cgroup_inode;
  std::map<Aspect, std::unique_ptr<Knob>> knobs;
  std::map<Aspect, std::string> missing;  // aspect -> why there is no knob
  std::optional<double> slice_ms;         // of SCHED_RR on this kernel
  std::string weak_cpus;                  // why only affinity binds a cgroup's tasks, which they can change; else empty

  [[nodiscard]] Knob* find(Aspect aspect) const;
  // A job that is to run only when nobody else wants the CPU: its weight is "idle" whatever a decision says.
  [[nodiscard]] bool is_idle_job() const;
  [[nodiscard]] KnobName name(const Knob& knob) const;
};
// Builds the knob that the name says, whether or not it works now. nullptr where there is no such knob.
std::unique_ptr<Knob> make_knob(const KnobName& name, const Roots& roots, const std::optional<resctrl::Info>& info);

// The knobs of a service where it is now; `resctrl` is the machine's, or why it has none.
// `job`: it is of class be.
KnobSet choose_knobs(const Place& place, bool job, const Config& config, const Result<resctrl::Info>& resctrl);

}  // namespace osml
