#include "apply/plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "base/cpuset.h"
#include "base/mask.h"
#include "base/number.h"

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
  const bool limits = change.aspect != Aspect::Tasks && change.aspect != Aspect::Weight;
  if (change.now.empty()) return limits ? std::optional(change.wanted) : std::nullopt;
  switch (change.aspect) {
    case Aspect::Cpus:
      return common_cpus(change);
    case Aspect::Ways:
      return common_ways(change, rules);
    case Aspect::Quota:
    case Aspect::Mba:
      return lower(change);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::vector<Step> plan(const std::vector<Change>& changes, const MaskRules& rules) {
  std::vector<Step> shrink;
  std::vector<Step> grow;
  for (const Aspect aspect : aspects) {
    for (std::size_t index = 0; index < changes.size(); ++index) {
      const Change& change = changes[index];
      if (change.aspect != aspect) continue;
      const auto first = shrunk(change, rules);
      if (first) shrink.push_back({index, *first});
      if (!first || *first != change.wanted) grow.push_back({index, change.wanted});
    }
  }
  shrink.insert(shrink.end(), grow.begin(), grow.end());
  return shrink;
}

std::string describe(const Change& change, const Step& step) {
  return change.service + ": " + std::string(name_of(change.aspect)) + " " + (change.now.empty() ? "-" : change.now) +
         " -> " + (step.value.empty() ? "-" : step.value);
}

}  // namespace osml
