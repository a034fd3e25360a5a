#include "plan/validate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "base/cpuset.h"
#include "base/mask.h"
#include "base/number.h"
#include "levers/priority.h"
#include "plan/domains.h"
#include "plan/wanted.h"

namespace osml {

namespace {

using Refusal = std::optional<std::string>;

constexpr double least_quota = 0.01;
constexpr double tolerance = 1e-6;  // of a core: quotas are decimal fractions

// One assignment against the machine and the operator's limits.
class Check {
 public:
  // `limit_unit`: CPUs that a limit of cores counts in.
  Check(const Assignment& assignment, const ServiceConfig& service, double limit_unit, const Platform& platform,
        const KnobSet& knobs, const Assignment* held, const Wanted* last, bool own)
      : assignment_(assignment),
        limits_(service.spec),
        others_(service.limits),
        limit_unit_(limit_unit),
        platform_(platform),
        knobs_(knobs),
        held_(held),
        supposed_(held == nullptr ? Wanted() : wanted_values(*held)),
        last_(held == nullptr ? last : &supposed_),
        own_(own) {}
  Check(const Check&) = delete;  // last_ may lead into it
  Check& operator=(const Check&) = delete;

  [[nodiscard]] Refusal run() const {
    for (const auto rule :
         {&Check::mechanisms, &Check::cpus, &Check::quota, &Check::mask, &Check::bandwidth, &Check::weight,
          &Check::memory, &Check::disk, &Check::priority, &Check::clock, &Check::present, &Check::steps}) {
      if (Refusal refused = (this->*rule)()) return "service '" + assignment_.service + "': " + *refused;
    }
    return {};
  }

 private:
  // A service whose cgroup does not exist at the moment has no CPU knobs; there is nothing to set, not something wrong.
  [[nodiscard]] Refusal mechanisms() const {
    for (const auto& [aspect, value] : wanted_values(assignment_)) {
      // Nobody asks for these two by name: they follow from ways and bandwidth, and are missing only with them.
      if (aspect == Aspect::Group || aspect == Aspect::Tasks) continue;
      if (knobs_.find(aspect) != nullptr || (knobs_.absent && aspect >= Aspect::Cpus)) continue;
      if (aspect == Aspect::Clock && platform_.frequency_mhz) continue;  // the knobs are those of the CPUs
      const auto why = knobs_.missing.find(aspect);
      return std::string(name_of(aspect)) + " " + value + " cannot be set on this node: " +
             (why == knobs_.missing.end() ? "there is no such mechanism" : why->second);
    }
    return {};
  }

  [[nodiscard]] Refusal cpus() const {
    if (!assignment_.cpus) return {};
    const auto cpus = parse_cpulist(*assignment_.cpus);
    if (!cpus) return "cpus: " + cpus.error().message;
    if (cpus->empty()) return "cpus is empty, expected at least one CPU of " + platform_.cpus;
    const auto usable = parse_cpulist(platform_.cpus);
    if (usable && !is_subset(*cpus, *usable)) {
      return "cpus " + *assignment_.cpus + " are not all CPUs of this node (" + platform_.cpus + "); remove " +
             format_cpulist(without(*cpus, *usable));
    }
    return cores("cpus " + *assignment_.cpus, static_cast<double>(cpus->size()), true);
  }

  [[nodiscard]] Refusal quota() const {
    if (!assignment_.cpu_quota) return {};
    const double quota = *assignment_.cpu_quota;
    const double all = platform_.cores * platform_.core_quantum;
    if (!(quota >= least_quota) || quota > all + 1e-9) {
      return "cpu_quota " + format_number(quota) + " is outside " + format_number(least_quota) + ".." +
             format_number(all) + " CPUs";
    }
    // The default of one core is no wish of the operator.
    return cores("cpu_quota " + format_number(quota), quota, limits_.min_cores > 1 || others_.min_cores_given);
  }

  // Not rounded: a quota of 1.5 CPUs is less than 2 cores.
  [[nodiscard]] Refusal cores(const std::string& what, double cpus, bool least_wanted) const {
    const double units = cores_of(cpus);
    if (least_wanted && units < limits_.min_cores - tolerance) {
      return what + " is " + number_of(units) + " cores, below the limit min_cores " +
             std::to_string(limits_.min_cores);
    }
    if (limits_.max_cores && units > *limits_.max_cores + tolerance) {
      return what + " is " + number_of(units) + " cores, above the limit max_cores " +
             std::to_string(*limits_.max_cores);
    }
    return {};
  }

  static std::string number_of(double units) { return format_number(std::round(units * 100) / 100); }

  [[nodiscard]] static Refusal within(const std::string& what, unsigned value, std::optional<unsigned> least,
                                      std::optional<unsigned> most) {
    const std::string text = what + " " + std::to_string(value);
    if (least && value < *least) return text + " is below the limit min_" + what + " " + std::to_string(*least);
    if (most && value > *most) return text + " is above the limit max_" + what + " " + std::to_string(*most);
    return {};
  }

  [[nodiscard]] Refusal weight() const {
    if (!assignment_.cpu_weight) return {};
    return within("weight", *assignment_.cpu_weight, others_.min_weight, others_.max_weight);
  }

  [[nodiscard]] static Refusal amount(const std::string& what, const std::optional<std::uint64_t>& value,
                                      const std::optional<KnobRange>& range, std::optional<std::uint64_t> least,
                                      std::optional<std::uint64_t> most) {
    if (!value) return {};
    const std::string text = what + " " + std::to_string(*value);
    if (range && (*value < range->min || *value > range->max)) {
      return text + " is outside " + std::to_string(range->min) + ".." + std::to_string(range->max);
    }
    if (least && *value < *least) return text + " is below the limit min_" + what + " " + std::to_string(*least);
    if (most && *value > *most) return text + " is above the limit max_" + what + " " + std::to_string(*most);
    return {};
  }

  [[nodiscard]] Refusal memory() const {
    return amount("memory_mib", assignment_.levers.memory_mib, platform_.memory_mib, others_.min_memory_mib,
                  others_.max_memory_mib);
  }

  [[nodiscard]] Refusal disk() const {
    return amount("disk_iops", assignment_.levers.disk_iops, platform_.disk_iops, others_.min_disk_iops,
                  others_.max_disk_iops);
  }

  [[nodiscard]] Refusal priority() const {
    const Levers& levers = assignment_.levers;
    if (levers.realtime_priority && *levers.realtime_priority >= least_kernel_priority) {
      return "realtime_priority " + std::to_string(*levers.realtime_priority) + " is outside 1.." +
             std::to_string(least_kernel_priority - 1) + ", above which the kernel's own threads are";
    }
    if (!levers.slice_ms || levers.slice_ms == knobs_.slice_ms) return {};
    return "slice_ms " + format_number(*levers.slice_ms) + " cannot be set for one service; expected " +
           (knobs_.slice_ms ? format_number(*knobs_.slice_ms) + ", as kernel.sched_rr_timeslice_ms says" : "none");
  }

  [[nodiscard]] Refusal clock() const {
    return amount("frequency_mhz", assignment_.levers.frequency_mhz, platform_.frequency_mhz, {}, {});
  }

  // What the state that the service is in right now forbids.
  [[nodiscard]] Refusal present() const {
    for (const auto& [aspect, value] : wanted_values(assignment_)) {
      Knob* knob = knobs_.find(aspect);
      const Status allowed = knob == nullptr ? done() : knob->allows(value);
      if (!allowed) return allowed.error().message;
    }
    return {};
  }

  // What is in force now; none where nobody set it.
  [[nodiscard]] std::string now(Aspect aspect) const {
    if (held_ != nullptr) {
      const Wanted values = wanted_values(*held_);
      const auto value = values.find(aspect);
      return value == values.end() ? std::string() : value->second;
    }
    Knob* knob = knobs_.find(aspect);
    const auto value = knob == nullptr ? Result<std::string>(std::string()) : knob->read();
    return value ? *value : std::string();
  }

  // Cores or ways of a value; none where it is not set.
  [[nodiscard]] std::optional<double> size_of(Aspect aspect, const std::string& value) const {
    if (aspect == Aspect::Cpus) {
      const auto cpus = parse_cpulist(value);
      if (!cpus || cpus->empty()) return std::nullopt;
      return cores_of(static_cast<double>(cpus->size()));
    }
    if (aspect == Aspect::Ways) {
      const auto mask = parse_unsigned(value, 16);
      return mask ? std::optional<double>(std::popcount(*mask)) : std::nullopt;
    }
    const auto quota = parse_double(value);
    return quota ? std::optional(cores_of(*quota)) : std::nullopt;
  }

  [[nodiscard]] double all_of(Aspect aspect) const {
    return aspect == Aspect::Ways ? platform_.ways.value_or(0) : cores_of(platform_.cores * platform_.core_quantum);
  }

  // A setting that a decision leaves out is nobody's limit any more, so it counts as all there is. Before the first
  // decision nobody knows.
  [[nodiscard]] Refusal step(Aspect aspect, const char* limit, const std::optional<unsigned>& most) const {
    if (!most || last_ == nullptr) return {};
    const Wanted values = wanted_values(assignment_);
    const auto value = values.find(aspect);
    const bool was_set = last_ != nullptr && last_->contains(aspect);
    const bool possible = knobs_.find(aspect) != nullptr && (aspect != Aspect::Ways || platform_.ways);
    if (value == values.end() && (!was_set || !possible)) return {};  // nobody can set what is not there any more
    std::optional<double> before = size_of(aspect, now(aspect));
    if (!before && was_set) before = size_of(aspect, last_->at(aspect));
    if (!before && last_ != nullptr) before = all_of(aspect);
    if (!before) return {};
    const double after = value == values.end() ? all_of(aspect) : size_of(aspect, value->second).value_or(*before);
    const double difference = std::abs(after - *before);
    if (difference <= *most + tolerance) return {};
    return std::string(name_of(aspect)) +
           (value == values.end() ? ", which the decision leaves out," : " " + value->second) + " is " +
           number_of(difference) + (after > *before ? " more" : " less") + " than now, above the limit " + limit + " " +
           std::to_string(*most);
  }

  // They keep a policy from jumps. The fallback is the operator's, and comes but once.
  [[nodiscard]] Refusal steps() const {
    if (own_) return {};
    if (Refusal refused = step(Aspect::Cpus, "max_core_step", others_.max_core_step)) return refused;
    if (Refusal refused = step(Aspect::Quota, "max_core_step", others_.max_core_step)) return refused;
    return step(Aspect::Ways, "max_way_step", others_.max_way_step);
  }

  [[nodiscard]] double cores_of(double cpus) const { return cpus / limit_unit_; }

  [[nodiscard]] Refusal mask() const {
    if (!assignment_.way_mask) return {};
    const std::uint64_t mask = *assignment_.way_mask;
    const std::string what = "way_mask " + wanted_values(assignment_).at(Aspect::Ways);
    const unsigned ways = platform_.ways.value_or(0);
    if (mask == 0) return what + " has no ways, expected at least " + std::to_string(platform_.min_way_bits);
    if (static_cast<unsigned>(std::bit_width(mask)) > ways) {
      return what + " is wider than the cache, which has " + std::to_string(ways) + " ways";
    }
    const auto count = static_cast<unsigned>(std::popcount(mask));
    if (!platform_.sparse_masks && !is_contiguous(mask)) {
      return what + " is not contiguous, expected one run of ways such as " + format_mask(run_of_ones(count)) +
             "; this cache accepts only contiguous masks";
    }
    if (count < std::max(platform_.min_way_bits, limits_.min_ways)) {
      const bool hardware = count < platform_.min_way_bits;
      return what + " has " + std::to_string(count) + " ways, below the " +
             (hardware ? "hardware minimum of " + std::to_string(platform_.min_way_bits)
                       : "limit min_ways " + std::to_string(limits_.min_ways));
    }
    if (limits_.max_ways && count > *limits_.max_ways) {
      return what + " has " + std::to_string(count) + " ways, above the limit max_ways " +
             std::to_string(*limits_.max_ways);
    }
    return {};
  }

  [[nodiscard]] Refusal bandwidth() const {
    if (!assignment_.mba || !platform_.mba) return {};
    const MbaRange& range = *platform_.mba;
    if (*assignment_.mba >= range.min && *assignment_.mba <= range.max) {
      return within("mba", *assignment_.mba, others_.min_mba, others_.max_mba);
    }
    return "mba " + std::to_string(*assignment_.mba) + " is outside " + std::to_string(range.min) + ".." +
           std::to_string(range.max) + " " + range.unit;
  }

  const Assignment& assignment_;
  const Service& limits_;
  const Limits& others_;
  double limit_unit_;
  const Platform& platform_;
  const KnobSet& knobs_;
  const Assignment* held_;
  Wanted supposed_;     // of a dry run, after its first decision
  const Wanted* last_;  // none before the first decision
  bool own_;
};

std::string known_names(const Config& config) {
  std::string names;
  for (const ServiceConfig& service : config.services) names += (names.empty() ? "" : ", ") + service.spec.name;
  return names;
}

const ServiceConfig* find_service(const Config& config, const std::string& name) {
  const auto found = std::find_if(config.services.begin(), config.services.end(),
                                  [&](const ServiceConfig& service) { return service.spec.name == name; });
  return found == config.services.end() ? nullptr : &*found;
}

Refusal check_names(const Decision& decision, const Config& config, const std::set<std::string>& excused) {
  if (decision.node != config.node)
    return "the decision is for node '" + decision.node + "', but this node is '" + config.node + "'";
  std::set<std::string> named;
  for (std::size_t i = 0; i < decision.assignments.size(); ++i) {
    const Assignment& assignment = decision.assignments[i];
    if (find_service(config, assignment.service) == nullptr) {
      return "assignments[" + std::to_string(i) + "].service: '" + assignment.service +
             "' is not a service of this node; its services are " + known_names(config);
    }
    if (!named.insert(assignment.service).second)
      return "service '" + assignment.service + "' has two assignments, expected one";
  }
  for (const ServiceConfig& service : config.services) {
    if (!named.contains(service.spec.name) && !excused.contains(service.spec.name)) {
      return "service '" + service.spec.name + "' has no assignment; a decision needs one for each service of the node";
    }
  }
  return {};
}

Refusal check_partition(const Partition& partition, const Config& config, const Platform& platform) {
  unsigned long cores = 0;
  unsigned long ways = 0;
  for (const Region& region : partition.regions) {
    cores += region.cores;
    ways += region.ways;
    for (const std::string& owner : region.owners) {
      if (find_service(config, owner) == nullptr) {
        return "partition: region owner '" + owner + "' is not a service of this node; its services are " +
               known_names(config);
      }
    }
  }
  if (cores > platform.cores) {
    return "partition: the regions sum up to " + std::to_string(cores) + " cores, expected at most the " +
           std::to_string(platform.cores) + " of this node; make a region smaller";
  }
  // Each cache domain has its own ways: with domains they are summed up in each.
  if (platform.ways && ways > *platform.ways && !names_domains(partition)) {
    return "partition: the regions sum up to " + std::to_string(ways) + " ways, expected at most the " +
           std::to_string(*platform.ways) + " of this node; make a region smaller";
  }
  return {};
}

// The next observation tells the server of the counts and of the assignments: they must not contradict each other.
Refusal check_shares(const Decision& decision) {
  for (const Assignment& assignment : decision.assignments) {
    unsigned long cores = 0;
    unsigned long ways = 0;
    for (const Region& region : decision.partition.regions) {
      if (std::find(region.owners.begin(), region.owners.end(), assignment.service) == region.owners.end()) continue;
      cores += region.cores;
      ways += region.ways;
    }
    const bool no_cores = cores == 0 && (assignment.cpus || assignment.cpu_quota);
    if (!no_cores && (ways > 0 || !assignment.way_mask)) continue;
    return "partition: the regions give service '" + assignment.service + "' 0 " + (no_cores ? "cores" : "ways") +
           ", expected at least 1 as in its assignment; add a region for it, or enlarge one";
  }
  return {};
}

// Nobody may be promised what another has.
Refusal check_sum(const Decision& decision, const char* what, std::optional<std::uint64_t> Levers::*part,
                  const std::optional<KnobRange>& range) {
  if (!range) return {};
  double sum = 0;  // of at most max_services parts, each within the range
  for (const Assignment& assignment : decision.assignments) {
    sum += static_cast<double>((assignment.levers.*part).value_or(0));
  }
  if (sum <= static_cast<double>(range->max)) return {};
  return std::string(what) + ": the assignments sum up to " + format_number(sum) + ", expected at most " +
         std::to_string(range->max) + "; make one smaller";
}

}  // namespace

std::optional<std::string> refusal(const Decision& decision, const Config& config, const Platform& platform,
                                   const std::vector<KnobSet>& knobs, const std::set<std::string>& excused,
                                   const std::vector<Assignment>& held, const std::map<std::string, Wanted>& last) {
  if (Refusal refused = check_names(decision, config, excused)) return refused;
  if (Refusal refused = check_partition(decision.partition, config, platform)) return refused;
  if (Refusal refused = domains_refusal(decision, platform)) return refused;
  for (const Assignment& assignment : decision.assignments) {
    const auto set = std::find_if(knobs.begin(), knobs.end(),
                                  [&](const KnobSet& candidate) { return candidate.service == assignment.service; });
    if (set == knobs.end()) return "service '" + assignment.service + "' has no known mechanisms yet";
    const ServiceConfig& service = *find_service(config, assignment.service);
    const auto now = std::find_if(held.begin(), held.end(),
                                  [&](const Assignment& candidate) { return candidate.service == assignment.service; });
    const auto decided = last.find(assignment.service);
    const Check check(assignment, service, config.cpu.limit_unit(), platform, *set, now == held.end() ? nullptr : &*now,
                      decided == last.end() ? nullptr : &decided->second, decision.own);
    if (Refusal refused = check.run()) return refused;
  }
  if (Refusal refused = check_sum(decision, "memory_mib", &Levers::memory_mib, platform.memory_mib)) return refused;
  if (Refusal refused = check_sum(decision, "disk_iops", &Levers::disk_iops, platform.disk_iops)) return refused;
  return check_shares(decision);
}

}  // namespace osml
