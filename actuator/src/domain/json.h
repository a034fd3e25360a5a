// The wire format: domain types to JSON and back. A decision is untrusted: types, ranges and forms are checked here,
// what it means for this machine is checked by apply/. Errors name the field: "assignments[1].way_mask: ...".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "domain/types.h"

namespace osml {

// Keys at the top that we do not know are ignored (newer servers), inside an assignment or region they are refused.
Result<Decision> parse_decision(std::string_view text);
// With exactly the keys of the Python struct; what was not measured is null.
std::string dump(const Observation& observation);

// ADL hooks: nlohmann::json(value) works for these.
void to_json(nlohmann::json& out, const Platform& platform);
void to_json(nlohmann::json& out, const Service& service);
void to_json(nlohmann::json& out, const Partition& partition);
void to_json(nlohmann::json& out, const Assignment& assignment);
void to_json(nlohmann::json& out, const Outcome& outcome);
void to_json(nlohmann::json& out, const Observation& observation);
void to_json(nlohmann::json& out, const Reason& reason);
void to_json(nlohmann::json& out, const Decision& decision);

// Strict readers; `field` is the path that an error names ("assignments").
Result<std::vector<Assignment>> parse_assignments(const nlohmann::json& list, const std::string& field);
Result<Partition> parse_partition(const nlohmann::json& object, const std::string& field);
// A decision that is part of a larger document.
Result<Decision> parse_decision(const nlohmann::json& object, const std::string& field);
Result<Platform> parse_platform(const nlohmann::json& object, const std::string& field);

// null where there is no value.
template <class T, class Json = nlohmann::json>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace osml
