#include "report/audit.h"

#include <array>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "domain/json.h"
#include "domain/keys.h"

namespace osml {

namespace {

using nlohmann::json;

constexpr std::uint64_t max_bytes = std::uint64_t{8} << 20U;
constexpr std::array fields = {key::cpus,       key::cpu_quota, key::cpu_weight,        key::way_mask,     key::mba,
                               key::memory_mib, key::disk_iops, key::realtime_priority, key::frequency_mhz};

// The one wall-clock time of the agent: people look things up by it.
std::string utc_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  std::array<char, 40> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  constexpr long ns_per_ms = 1'000'000;
  (void)std::snprintf(text.data() + length, text.size() - length, ".%03ldZ", now.tv_nsec / ns_per_ms);
  return text.data();
}

json as_found(const std::vector<Assignment>& assignments, const std::string& service) {
  for (const Assignment& assignment : assignments) {
    if (assignment.service == service) return assignment;
  }
  return Assignment{service, {}, {}, {}, {}, {}};
}

// On one level, null where a field is not set.
json flat(const json& assignment) {
  json values = assignment.value(key::knobs, json::object());
  values.update(assignment);
  for (const char* field : fields) values.emplace(field, nullptr);
  return values;
}

json changes_between(const std::vector<Assignment>& before, const std::vector<Assignment>& after) {
  json changes = json::array();
  for (const Assignment& assignment : after) {
    const json old_values = flat(as_found(before, assignment.service));
    const json new_values = flat(assignment);
    for (const char* field : fields) {
      if (old_values[field] == new_values[field]) continue;
      changes.push_back({{key::service, assignment.service},
                         {"field", field},
                         {"old", old_values[field]},
                         {"new", new_values[field]}});
    }
  }
  return changes;
}

std::string word(const json& value) {
  if (value.is_null()) return "unset";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

Audit::Audit(const fs::path& state_dir) : file_(state_dir / "audit.jsonl", max_bytes) {}

Status Audit::record(double node_time_s, const Decision& decision, const Outcome& outcome,
                     const std::vector<Assignment>& before, const std::vector<Assignment>& after,
                     const std::vector<std::string>& absent) {
  // Also a refusal: it would push out what was really done.
  const bool nothing_done = outcome.status == OutcomeStatus::Unchanged || outcome.status == OutcomeStatus::Refused;
  const std::string what = nothing_done ? text_of(outcome.status) + outcome.message + json(absent).dump() : "";
  if (nothing_done && what == nothing_) return done();
  const json line = {{"time", utc_now()},
                     {"node_time_s", node_time_s},
                     {key::seq, outcome.seq},
                     {key::policy, decision.policy},
                     {key::status, text_of(outcome.status)},
                     {key::message, outcome.message},
                     {key::duration_ms, outcome.duration_ms ? json(*outcome.duration_ms) : json(nullptr)},
                     {"absent", absent},
                     {"changes", changes_between(before, after)},
                     {key::reasons, decision.reasons}};
  Status written = file_.append(line.dump(-1, ' ', false, json::error_handler_t::replace));
  nothing_ = written ? what : std::string();  // a line that is lost comes between two refusals, too
  return written;
}

std::vector<std::string> changes_in_words(const std::vector<Assignment>& before, const std::vector<Assignment>& after) {
  std::vector<std::string> words;
  for (const json& change : changes_between(before, after)) {
    words.push_back(word(change[key::service]) + " " + word(change["field"]) + " " + word(change["old"]) + " -> " +
                    word(change["new"]));
  }
  return words;
}

}  // namespace osml
