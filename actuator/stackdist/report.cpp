#include "report.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace osml::stackdist {

namespace {

void add(GroupCounts& to, const GroupCounts& from) {
  const auto sum = [](auto& a, const auto& b) {
    for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  };
  sum(to.prefetched, from.prefetched);
  for (std::uint32_t variant = 0; variant < kVariants; ++variant) {
    sum(to.demand[variant], from.demand[variant]);
    sum(to.written[variant], from.written[variant]);
  }
}

nlohmann::json histogram(const Histogram& counts, std::uint32_t ways) {
  auto list = nlohmann::json::array();
  for (std::uint32_t depth = 0; depth < ways; ++depth) list.push_back(counts[depth]);
  list.push_back(counts[kBeyond]);
  list.push_back(counts[kCold]);
  return list;
}

nlohmann::json counts_json(const GroupCounts& counts, std::uint32_t ways) {
  auto written = nlohmann::json::array();
  for (const auto& of_variant : counts.written) {
    written.push_back(nlohmann::json(std::vector<std::uint64_t>(of_variant.begin(), of_variant.begin() + ways)));
  }
  return {{"demand", {histogram(counts.demand[0], ways), histogram(counts.demand[1], ways)}},
          {"prefetched", histogram(counts.prefetched, ways)},
          {"written", written}};
}

}  // namespace

nlohmann::json report(const SharedModel& model) {
  const Shared& shared = model.shared();
  const Geometry& geometry = model.geometry();
  auto slices = nlohmann::json::array();
  std::vector<GroupCounts> groups(kGroups);
  const std::uint32_t used = std::min(shared.current_slice.load() + 1, kSlices);
  for (std::uint32_t i = 0; i < used; ++i) {
    const Slice& slice = shared.slices[i];
    auto total = std::make_unique<GroupCounts>();
    for (std::uint32_t group = 0; group < kGroups; ++group) {
      add(*total, slice.groups[group]);
      add(groups[group], slice.groups[group]);
    }
    auto entry = counts_json(*total, geometry.ways);
    entry["instructions"] = slice.instructions;
    slices.push_back(std::move(entry));
  }
  auto of_groups = nlohmann::json::array();
  for (std::uint32_t group = 0; group < kGroups; ++group) {
    auto entry = counts_json(groups[group], geometry.ways);
    // Groups have sets by turns, so the first ones may have one more.
    entry["sets"] = (geometry.sampled_sets() + kGroups - 1 - group) / kGroups;
    of_groups.push_back(std::move(entry));
  }
  const double share = static_cast<double>(geometry.sampled_sets()) / static_cast<double>(geometry.sets);
  return {{"sets", geometry.sets},
          {"sampled_sets", geometry.sampled_sets()},
          {"ways", geometry.ways},
          {"way_bytes", geometry.sets * kLineBytes},
          {"l1i_kib", geometry.l1i.kib},
          {"l1d_kib", geometry.l1d.kib},
          {"l2_kib", geometry.l2.kib},
          {"hashed", geometry.hashed},
          {"seed", geometry.seed},
          {"processes", shared.processes.load()},
          {"threads", shared.threads.load()},
          {"unseen_programs", shared.unseen_programs.load()},
          {"instructions", shared.measured_instructions.load()},
          {"instructions_of_run", shared.instructions.load()},
          {"footprint_bytes", model.distinct_lines() / share * kLineBytes},
          {"slices", std::move(slices)},
          {"groups", std::move(of_groups)}};
}

}  // namespace osml::stackdist
