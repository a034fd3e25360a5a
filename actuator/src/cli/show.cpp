#include <nlohmann/json.hpp>

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

std::vector<std::string> row_of(const Assignment& one) {
  return {one.service,
          one.cpus.value_or("-"),
          one.cpu_quota ? format_number(*one.cpu_quota) : "-",
          one.cpu_weight ? std::to_string(*one.cpu_weight) : "-",
          one.way_mask ? format_mask(*one.way_mask) : "-",
          one.mba ? std::to_string(*one.mba) : "-"};
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
  std::vector<std::vector<std::string>> rows{{"service", "cpus", "quota", "weight", "ways", "mba"}};
  for (const Assignment& one : *assignments) rows.push_back(row_of(one));
  print_table(out, rows);
  return done();
}

}  // namespace osml::cli
