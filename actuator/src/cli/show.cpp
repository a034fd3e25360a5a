#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "apply/actuator.h"
#include "base/mask.h"
#include "base/number.h"
#include "cli/commands.h"
#include "cli/sources.h"
#include "cli/table.h"
#include "domain/json.h"

namespace osml::cli {

namespace {

using Json = nlohmann::ordered_json;

template <class T>
std::string shown(const std::optional<T>& value) {
  return value ? std::to_string(*value) : "-";
}

struct Lever {
  const char* title;
  std::string (*value_of)(const Levers&);
};

// Most nodes set none of them.
constexpr std::array<Lever, 4> levers = {{
    {"memory_mib", [](const Levers& set) { return shown(set.memory_mib); }},
    {"disk_iops", [](const Levers& set) { return shown(set.disk_iops); }},
    {"realtime_priority", [](const Levers& set) { return shown(set.realtime_priority); }},
    {"frequency_mhz", [](const Levers& set) { return shown(set.frequency_mhz); }},
}};

std::vector<std::vector<std::string>> rows_of(const std::vector<Assignment>& assignments) {
  std::vector<std::vector<std::string>> rows{{"service", "cpus", "quota", "weight", "ways", "mba"}};
  for (const Assignment& one : assignments) {
    rows.push_back({one.service, one.cpus.value_or("-"), one.cpu_quota ? format_number(*one.cpu_quota) : "-",
                    shown(one.cpu_weight), one.way_mask ? format_mask(*one.way_mask) : "-", shown(one.mba)});
  }
  for (const Lever& lever : levers) {
    const bool set = std::any_of(assignments.begin(), assignments.end(),
                                 [&](const Assignment& one) { return lever.value_of(one.levers) != "-"; });
    if (!set) continue;
    rows[0].emplace_back(lever.title);
    for (std::size_t i = 0; i < assignments.size(); ++i) rows[i + 1].push_back(lever.value_of(assignments[i].levers));
  }
  return rows;
}

Json absent_json(const std::vector<Place>& places) {
  Json absent = Json::object();
  for (const Place& place : places) {
    if (place.absent && !place.watched) absent[place.service] = place.why;
  }
  return absent;
}

}  // namespace

Status show(const Options& options, std::ostream& out) {
  const auto config = load(options);
  if (!config) return config.error();
  auto actuator = Actuator::open(*config, {.read_only = true});
  if (!actuator) return actuator.error();
  const auto assignments = actuator->read();
  if (!assignments) return assignments.error();
  const std::string absent = absent_in_words(actuator->places());
  if (options.json) {
    Json list = Json::array();
    for (const Assignment& one : *assignments) list.push_back(Json::parse(nlohmann::json(one).dump()));
    Json document{{"node", config->node}, {"absent", absent_json(actuator->places())}, {"assignments", list}};
    add_sources(document, *actuator);
    out << document.dump(2) << '\n';
    return done();
  }
  if (!absent.empty()) out << "not there: " << absent << '\n';
  print_sources(out, *actuator);
  print_table(out, rows_of(*assignments));
  return done();
}

}  // namespace osml::cli
