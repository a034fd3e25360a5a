// The clock: a decision gives it to services, and the kernel to domains of CPUs.
#include "plan/clocks.h"

#include <algorithm>

#include "apply/node_state.h"
#include "base/number.h"

namespace osml {

namespace {

constexpr const char* off = "levers.frequency is off in the agent's configuration; set levers.frequency: on";

// Much less than what was set, so that the operator should know.
bool is_held_down(const std::string& mhz, const std::string& wanted) {
  constexpr double much = 0.9;
  const auto now = parse_double(mhz);
  const auto limit = parse_double(wanted);
  return now && limit && *now < *limit * much;
}

}  // namespace

void Actuator::State::add_clocks(Platform& now) {
  if (clocks.domains.empty()) {
    clocks = find_clocks(*config, topology.cpus, [this](const KnobName& name) {
      const Saved* saved = journal.find(name);
      return saved == nullptr ? nullptr : &saved->snapshot;
    });
  }
  if (!config->levers.frequency) clocks.knobs.clear();
  const bool usable = config->levers.frequency && clocks.range;
  for (KnobSet& set : knobs) {
    if (!usable && !set.absent && set.looked_at) {
      set.missing[Aspect::Clock] = config->levers.frequency ? clocks.how : off;
    }
  }
  if (!usable) return;
  now.frequency_mhz = clocks.range;
  if (!now.frequency_ghz) now.frequency_ghz = clocks.nominal_ghz;
}

Status Actuator::State::add_clock_limits(std::map<std::string, Wanted>& wanted, ClockKnob::Reach reach) const {
  if (clocks.knobs.empty()) return done();
  const auto limits = clock_limits(clocks.domains, users_of(wanted));
  for (const KnobSet& set : clocks.knobs) {
    Wanted& values = wanted[set.service];
    const auto mhz = limits.find(set.service);
    if (mhz == limits.end()) continue;
    const auto value = clock_value(set, mhz->second, reach);
    if (!value && is_clock_offline(value.error())) continue;
    if (!value) return value.error().wrap(set.service);
    if (*value) values[Aspect::Clock] = **value;
  }
  return done();
}

Result<std::optional<std::string>> Actuator::State::clock_value(const KnobSet& set, std::uint64_t mhz,
                                                                ClockKnob::Reach reach) const {
  ClockKnob knob(config->roots, set.service);
  if (const Saved* saved = journal.find(set.name(knob))) return knob.limit(mhz, saved->snapshot, reach);
  const auto now = knob.snapshot();
  if (!now) return now.error();
  return knob.limit(mhz, *now, reach);
}

Status Actuator::State::follow_clocks() {
  if (clocks.knobs.empty()) return done();
  const auto limits = clocks_in_force(ClockKnob::Reach::Now);
  if (!limits) return limits.error();
  std::vector<PartValue> limited;
  std::vector<const KnobSet*> unlimited;
  for (const KnobSet& set : clocks.knobs) {
    const auto value = limits->find(set.service);
    if (value == limits->end()) {
      unlimited.push_back(&set);
    } else {
      limited.push_back({&set, value->second});
    }
  }
  const Status kept = set_parts(limited);
  const Status released = release_parts(unlimited);
  std::size_t held = 0;
  std::string example;
  for (const PartValue& one : limited) {
    const auto now = one.part->find(Aspect::Clock)->read();
    if (!now || !is_held_down(*now, one.value)) continue;
    if (++held == 1) example = one.part->service + " with " + *now + " MHz instead of " + one.value;
  }
  if (held > 0) {
    missing["cpufreq.held_down"] =
        "firmware, heat or another program holds clocks below the limit that the agent set: " + std::to_string(held) +
        " of " + std::to_string(clocks.knobs.size()) + " domains, such as " + example;
  }
  return kept ? released : kept;
}

Result<ClockLimits> Actuator::State::clocks_in_force(ClockKnob::Reach reach) const {
  auto wanted = applied_values();
  if (Status known = add_clock_limits(wanted, reach); !known) return known.error();
  ClockLimits limits;
  for (const KnobSet& set : clocks.knobs) {
    const Wanted& values = wanted.at(set.service);
    if (const auto mhz = values.find(Aspect::Clock); mhz != values.end()) limits[set.service] = mhz->second;
  }
  return limits;
}

// Heat or firmware may hold a clock below its limit, which is what was decided all the same.
std::optional<std::uint64_t> Actuator::State::clock_of(const std::string& cpus,
                                                       const Result<ClockLimits>& in_force) const {
  const auto own = parse_cpulist(cpus);
  if (!own || clocks.knobs.empty()) return std::nullopt;
  CpuSet limited;
  double highest = 0;
  for (std::size_t i = 0; i < clocks.knobs.size(); ++i) {
    const KnobSet& set = clocks.knobs[i];
    if (intersect(clocks.domains[i].cpus, *own).empty()) continue;
    Knob& knob = *set.find(Aspect::Clock);
    const Saved* saved = journal.find(set.name(knob));
    const auto found = saved == nullptr ? std::nullopt : parse_double(saved->snapshot);
    auto now = knob.read();
    if (now && in_force) {
      const auto limit = in_force->find(set.service);
      if (limit != in_force->end() && knob.accepts(*now, limit->second)) now = limit->second;
    }
    const auto mhz = now ? parse_double(*now) : std::nullopt;
    if (!found || !mhz || *mhz * 1000 >= *found) return std::nullopt;
    limited = unite(limited, clocks.domains[i].cpus);
    highest = std::max(highest, *mhz);
  }
  if (!is_subset(*own, limited)) return std::nullopt;
  return static_cast<std::uint64_t>(highest);
}

}  // namespace osml
