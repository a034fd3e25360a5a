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
#include "resctrl/info.h"

namespace osml {

struct KnobSet {
  std::string service;
  Match match;
  bool absent = false;  // its cgroup does not exist: nothing to set until it is there
  std::map<Aspect, std::unique_ptr<Knob>> knobs;
  std::map<Aspect, std::string> missing;  // aspect -> why there is no knob

  [[nodiscard]] Knob* find(Aspect aspect) const;
};

// What names a knob in the journal.
struct KnobName {
  std::string service;
  Aspect aspect = Aspect::Cpus;
  std::string backend;  // cgroup2 | cgroup1 | affinity | resctrl | regulator
  Match match;
};

// Builds the knob that the name says, whether or not it works now. nullptr where there is no such knob.
std::unique_ptr<Knob> make_knob(const KnobName& name, const Roots& roots, const std::optional<resctrl::Info>& info);

// The knobs of a service; `resctrl` is the machine's, or why it has none.
KnobSet choose_knobs(const ServiceConfig& service, const Config& config, const Result<resctrl::Info>& resctrl);

}  // namespace osml
