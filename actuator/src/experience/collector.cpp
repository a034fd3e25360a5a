#include "experience/collector.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "domain/json.h"
#include "domain/keys.h"

namespace osml {

namespace {

using nlohmann::json;

std::string without_state(json document) {
  document[key::policy_state] = nullptr;
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool was_carried_out(std::uint64_t seq, const Observation& after) {
  if (!after.outcome || after.outcome->seq != seq) return false;
  if (!took_effect(*after.outcome)) return false;
  // None: somebody else changed the machine meanwhile, so what is measured now did not come of the decision.
  return after.partition.has_value();
}

}  // namespace

Answer ExperienceCollector::ask(const Observation& observation) {
  if (buffer_->closed()) return source_->ask(observation);
  auto text = std::make_shared<const std::string>(without_state(observation));
  complete(observation, text);
  Answer answer = source_->ask(observation);
  if (answer) open_ = Open{observation.seq, std::move(text), answer.text()};
  return answer;
}

void ExperienceCollector::complete(const Observation& observation, std::shared_ptr<const std::string> text) {
  const std::optional<Open> open = std::exchange(open_, std::nullopt);
  if (!open || observation.seq != open->seq + 1 || !was_carried_out(open->seq, observation)) return;
  // It was read before it was obeyed, so it is an object.
  json decision = json::parse(open->decision, nullptr, false);
  if (!decision.is_object()) return;
  buffer_->push({open->observation, without_state(std::move(decision)), std::move(text)});
}

}  // namespace osml
