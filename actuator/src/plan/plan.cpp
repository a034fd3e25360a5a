#include "plan/plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>

#include "base/cpuset.h"
#include "base/mask.h"
#include "base/number.h"
#include "resctrl/group.h"

namespace osml {

namespace {

// What old and new have in common, where that is less than the old and enough to live on.
std::optional<std::string> common_cpus(const Change& change) {
  const auto now = parse_cpulist(change.now);
  const auto wanted = parse_cpulist(change.wanted);
  if (!now || !wanted) return std::nullopt;
  const CpuSet common = intersect(*now, *wanted);
  if (common.empty() || common == *now) return std::nullopt;
  return common == *wanted ? change.wanted : format_cpulist(common);
}

std::optional<std::string> common_ways(const Change& change, const MaskRules& rules) {
  const auto now = parse_unsigned(change.now, 16);  // not one number where the domains differ
  const auto wanted = parse_unsigned(change.wanted, 16);
  if (!now || !wanted) return std::nullopt;
  const std::uint64_t common = *now & *wanted;
  if (common == 0 || common == *now) return std::nullopt;
  if (static_cast<unsigned>(std::popcount(common)) < rules.min_bits) return std::nullopt;
  if (!rules.sparse && !is_contiguous(common)) return std::nullopt;
  return common == *wanted ? change.wanted : format_mask(common);
}

std::optional<std::string> lower(const Change& change) {
  const auto now = parse_double(change.now);
  const auto wanted = parse_double(change.wanted);
  return now && wanted && *wanted < *now ? std::optional(change.wanted) : std::nullopt;
}

// The value of the shrinking step, where there is one. A knob that was not set let its service use everything.
std::optional<std::string> shrunk(const Change& change, const MaskRules& rules) {
  if (change.found || change.aspect >= Aspect::Clock) return std::nullopt;
  const bool limits =
      change.aspect != Aspect::Tasks && change.aspect != Aspect::Weight && change.aspect != Aspect::Priority;
  if (change.now.empty()) return limits ? std::optional(change.wanted) : std::nullopt;
  switch (change.aspect) {
    case Aspect::Cpus:
      return common_cpus(change);
    case Aspect::Ways:
      return common_ways(change, rules);
    case Aspect::Quota:
    case Aspect::Mba:
    case Aspect::Memory:
    case Aspect::Disk:
      return lower(change);
    default:
      return std::nullopt;
  }
}

// What was found is never below what the agent set.
bool raises_clock(const Change& change) { return change.found || !lower(change); }

bool removes(const Change& change) { return change.aspect == Aspect::Group && change.wanted.empty(); }

// When a step is done. A group that goes makes room for one that comes, so its tasks leave it before, where the group
// that they move to exists already; else they are in the root group for a moment.
enum class Stage { RaiseClocks, Shrink, LeaveGroups, RemoveGroups, MakeGroups, Grow, LowerClocks, MoveMemory };

class Stages {
 public:
  explicit Stages(const std::vector<Change>& changes) {
    for (const Change& change : changes) {
      if (removes(change)) removing_ = true;
      if (change.aspect == Aspect::Group && !removes(change)) made_.insert(resctrl::group_name(change.service));
    }
  }
  [[nodiscard]] Stage of(const Change& change, bool shrinks) const {
    if (change.aspect == Aspect::Nodes) return Stage::MoveMemory;
    if (change.aspect == Aspect::Clock) return raises_clock(change) ? Stage::RaiseClocks : Stage::LowerClocks;
    if (removes(change)) return Stage::RemoveGroups;
    if (!removing_) return shrinks ? Stage::Shrink : Stage::Grow;
    if (change.found && change.aspect == Aspect::Tasks) return Stage::LeaveGroups;
    const bool new_group = change.now.empty() && change.aspect <= Aspect::Mba;
    if (new_group) return Stage::MakeGroups;
    if (change.aspect == Aspect::Tasks && !made_.contains(change.wanted)) return Stage::LeaveGroups;
    return shrinks ? Stage::Shrink : Stage::Grow;
  }

 private:
  bool removing_ = false;
  std::set<std::string> made_;  // names of groups
};

}  // namespace

std::vector<Step> plan(const std::vector<Change>& changes, const MaskRules& rules) {
  const Stages stages(changes);
  std::map<Stage, std::vector<Step>> order;
  for (const Aspect aspect : aspects) {
    for (std::size_t index = 0; index < changes.size(); ++index) {
      const Change& change = changes[index];
      if (change.aspect != aspect) continue;
      const auto first = shrunk(change, rules);
      if (first) order[stages.of(change, true)].push_back({index, *first});
      if (!first || *first != change.wanted) order[stages.of(change, false)].push_back({index, change.wanted});
    }
  }
  std::vector<Step> steps;
  for (const auto& [stage, some] : order) steps.insert(steps.end(), some.begin(), some.end());
  return steps;
}

std::string describe(const Change& change, const Step& step) {
  return change.service + ": " + std::string(name_of(change.aspect)) + " " + (change.now.empty() ? "-" : change.now) +
         " -> " +
         (change.found         ? "as found"
          : step.value.empty() ? "-"
                               : step.value);
}

}  // namespace osml
