#include "gate/question.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "domain/forms.h"
#include "domain/json_reader.h"

namespace osml {

namespace {

using nlohmann::json;

constexpr std::uint64_t any_number = std::numeric_limits<std::int64_t>::max();

bool is_cpu_list_or_none(std::string_view text) { return text.empty() || is_cpu_list(text); }
bool is_stage(std::string_view text) { return text == "look" || text == "start"; }

bool is_short(std::string_view text) {
  constexpr std::size_t longest = 317;
  return !text.empty() && text.size() <= longest;
}

Result<json> object_of(std::string_view text) {
  json found = json::parse(text, nullptr, false);
  if (!found.is_object()) return Error{ErrorKind::Input, "expected one JSON object", 0};
  return found;
}

}  // namespace

bool is_well_formed(const ContainerQuestion& question) {
  return is_pod_uid(question.pod_uid) && is_container_id(question.id) && is_short(question.container) &&
         is_cpu_list_or_none(question.kubelet_cpus.value_or(""));
}

std::string text_of(const ContainerQuestion& question) {
  json text = {{"number", question.number},
               {"stage", question.stage == ContainerQuestion::Stage::Look ? "look" : "start"},
               {"pod", question.pod_uid},
               {"container", question.container},
               {"id", question.id}};
  if (question.kubelet_cpus) text["kubelet_cpus"] = *question.kubelet_cpus;
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<ContainerQuestion> parse_question(std::string_view text) {
  const auto object = object_of(text);
  if (!object) return object.error();
  std::optional<Error> error;
  JsonReader reader(*object, "", error);
  reader.refuse_unknown({"number", "stage", "pod", "container", "id", "kubelet_cpus"});
  ContainerQuestion question;
  question.number = reader.integer("number", 0, any_number);
  question.stage = reader.text("stage", is_stage, "look or start") == "start" ? ContainerQuestion::Stage::Start
                                                                              : ContainerQuestion::Stage::Look;
  question.pod_uid = reader.text("pod", is_pod_uid, "the uid of a pod");
  question.container = reader.text("container", is_short, "the name of a container");
  question.id = reader.text("id", is_container_id, "64 hexadecimal digits");
  question.kubelet_cpus = reader.optional_text("kubelet_cpus", is_cpu_list_or_none, "a list of CPUs, or nothing");
  if (error) return *error;
  return question;
}

std::string text_of(const ContainerAnswer& answer) {
  json text = {{"number", answer.number}};
  if (!answer.service.empty()) text["service"] = answer.service;
  if (!answer.cpus.empty()) text["cpus"] = answer.cpus;
  return text.dump();
}

std::string text_of(const CpusInForce& cpus) { return json{{"in_force", cpus}}.dump(); }

Result<FromAgent> parse_from_agent(std::string_view text) {
  const auto object = object_of(text);
  if (!object) return object.error();
  std::optional<Error> error;
  JsonReader reader(*object, "", error);
  FromAgent found;
  if (object->contains("in_force")) {
    reader.refuse_unknown({"in_force"});
    CpusInForce& all = found.in_force.emplace();
    const json& services = reader.object("in_force");
    for (const auto& [service, cpus] : services.items()) {
      if (error) break;
      JsonReader one(services, "in_force", error);
      all[service] = one.text(service.c_str(), is_cpu_list, "a list of CPUs");
    }
  } else {
    reader.refuse_unknown({"number", "service", "cpus"});
    ContainerAnswer& answer = found.answer.emplace();
    answer.number = reader.integer("number", 0, any_number);
    answer.service = reader.optional_text("service", is_name, "the name of a service").value_or("");
    answer.cpus = reader.optional_text("cpus", is_cpu_list, "a list of CPUs").value_or("");
  }
  if (error) return *error;
  return found;
}

}  // namespace osml
