#include "cli/sources.h"

#include <map>
#include <string>

#include "base/printable.h"

namespace osml::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_why = 400;

void add(std::string& list, const std::string& name, const std::string& more) {
  list.append(list.empty() ? "" : ", ").append(name).append(" (").append(more).append(")");
}

using Reasons = std::map<std::string, std::string>;  // name -> why

Json reasons_json(const Reasons& reasons) {
  Json document = Json::object();
  for (const auto& [name, why] : reasons) document[name] = printable(why, longest_why);
  return document;
}

void print_reasons(std::ostream& out, const char* title, const Reasons& reasons) {
  std::string list;
  for (const auto& [name, why] : reasons) add(list, name, printable(why, longest_why));
  if (!list.empty()) out << title << list << '\n';
}

}  // namespace

void add_sources(Json& document, const Actuator& actuator) {
  Json services = Json::array();
  for (const ServiceConfig& one : actuator.config().services) {
    services.push_back({{"name", one.spec.name},
                        {"source", one.spec.source ? Json(*one.spec.source) : Json(nullptr)},
                        {"watched", one.watched}});
  }
  document["services"] = services;
  document["refused_pods"] = reasons_json(actuator.discovered().refused);
  document["waiting_pods"] = reasons_json(actuator.discovered().waiting);
  document["refused_targets"] = reasons_json(actuator.targets().refused());
}

void print_sources(std::ostream& out, const Actuator& actuator) {
  std::string found, watched;
  for (const ServiceConfig& one : actuator.discovered().services) {
    add(found, one.spec.name, *one.spec.source);
    const Place* place = place_of(actuator.places(), one.spec.name);
    if (place != nullptr && place->watched) add(watched, one.spec.name, place->why);
  }
  if (!found.empty()) out << "asked for by pods and LatencyTargets: " << found << '\n';
  if (!watched.empty()) out << "watched, not managed: " << watched << '\n';
  print_reasons(out, "pods that are refused: ", actuator.discovered().refused);
  print_reasons(out, "pods that wait: ", actuator.discovered().waiting);
  print_reasons(out, "LatencyTargets that are refused: ", actuator.targets().refused());
}

}  // namespace osml::cli
