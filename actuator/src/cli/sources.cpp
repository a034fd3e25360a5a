#include "cli/sources.h"

#include "base/printable.h"

namespace osml::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_why = 400;

void add(std::string& list, const std::string& name, const std::string& more) {
  list.append(list.empty() ? "" : ", ").append(name).append(" (").append(more).append(")");
}

}  // namespace

void add_sources(Json& document, const Actuator& actuator) {
  Json services = Json::array();
  for (const ServiceConfig& one : actuator.config().services) {
    services.push_back({{"name", one.spec.name},
                        {"source", one.spec.source ? Json(*one.spec.source) : Json(nullptr)},
                        {"watched", one.watched}});
  }
  Json refused = Json::object();
  for (const auto& [pod, why] : actuator.discovered().refused) refused[pod] = printable(why, longest_why);
  document["services"] = services;
  document["refused_pods"] = refused;
}

void print_sources(std::ostream& out, const Actuator& actuator) {
  std::string found, watched, refused;
  for (const ServiceConfig& one : actuator.discovered().services) {
    add(found, one.spec.name, *one.spec.source);
    const Place* place = place_of(actuator.places(), one.spec.name);
    if (place != nullptr && place->watched) add(watched, one.spec.name, place->why);
  }
  for (const auto& [pod, why] : actuator.discovered().refused) add(refused, pod, printable(why, longest_why));
  if (!found.empty()) out << "from annotations: " << found << '\n';
  if (!watched.empty()) out << "watched, not managed: " << watched << '\n';
  if (!refused.empty()) out << "pods that are refused: " << refused << '\n';
}

}  // namespace osml::cli
