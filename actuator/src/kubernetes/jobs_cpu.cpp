#include "kubernetes/jobs_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace osml {

namespace {

constexpr double shortest_slot_s = 5;
constexpr std::size_t least_slots = 12;
constexpr std::size_t tenth = 10;
constexpr double millicpus = 1000;
constexpr std::uint64_t grain = 100;
constexpr double step_of_machine = 0.05;

// Rounding up to the grain would promise what is not there.
std::uint64_t rounded_down(double cpus) {
  constexpr double tolerance = 1e-6;  // 12 units of 0.1 CPU are 1.2 CPUs, whatever binary fractions say
  return static_cast<std::uint64_t>(std::floor(cpus * millicpus / static_cast<double>(grain) + tolerance)) * grain;
}

}  // namespace

JobsCpu::JobsCpu(double interval_s) : slot_s_(std::max(shortest_slot_s, interval_s)) {}

std::optional<double> JobsCpu::low(std::int64_t newest) const {
  std::vector<double> seen;
  for (const Slot& slot : ring_) {
    if (slot.number >= 0 && slot.number > newest - static_cast<std::int64_t>(slots)) seen.push_back(slot.least);
  }
  if (seen.empty() && told_) return 0;  // what was true five minutes ago is no promise
  if (seen.size() < least_slots) return std::nullopt;
  const auto lowest_tenth = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / tenth);
  std::nth_element(seen.begin(), lowest_tenth, seen.end());
  return *lowest_tenth;
}

void JobsCpu::see(std::optional<double> cpus, double machine_cpus, bool refused, double now_s) {
  const auto newest = static_cast<std::int64_t>(std::floor(now_s / slot_s_));
  if (cpus) {
    const double bounded = std::clamp(*cpus, 0.0, machine_cpus);
    Slot& slot = ring_.at(static_cast<std::size_t>(newest) % slots);
    slot = {newest, slot.number == newest ? std::min(slot.least, bounded) : bounded};
  }
  if (refused) {
    told_ = 0;
    return;
  }
  const std::optional<double> lowest = low(newest);
  if (!lowest) return;
  const std::uint64_t fresh = rounded_down(*lowest);
  const std::uint64_t step = std::max(grain, rounded_down(step_of_machine * machine_cpus));
  const std::uint64_t moved = told_ ? std::max(fresh, *told_) - std::min(fresh, *told_) : step;
  if (moved >= step || fresh == 0) told_ = fresh;
}

}  // namespace osml
