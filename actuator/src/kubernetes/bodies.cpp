#include "kubernetes/bodies.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/printable.h"

namespace osml {

namespace {

using nlohmann::json;

constexpr const char* component = "osml-agent";
constexpr std::size_t most_named = 8;
constexpr std::size_t longest_words = 400;  // a message of an event has at most 1024 bytes

std::string names(const std::set<std::string>& services) {
  std::string text;
  std::size_t named = 0;
  for (const std::string& service : services) {
    if (named == most_named) return text + fmt::format(" and {} more", services.size() - named);
    text += (named++ == 0 ? "" : ", ") + service;
  }
  return text;
}

std::string infeasible_message(const Verdict& verdict) {
  const std::string whose = verdict.services.empty() ? "its services" : names(verdict.services);
  const std::string words = printable(verdict.words, longest_words);
  return "This node cannot meet the latency targets of " + whose + (words.empty() ? "." : ": " + words);
}

// Bytes of others that are no UTF-8 become replacement characters; nothing is thrown.
std::string json_text(const json& document) { return document.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

Condition condition_of(const Verdict& verdict) {
  switch (verdict.standing) {
    case Standing::Met:
      return {"True", "TargetsMet", "These services meet their latency targets: " + names(verdict.services) + "."};
    case Standing::Missed:
      return {"False", "TargetsMissed", "These services miss their latency targets: " + names(verdict.services) + "."};
    case Standing::Infeasible:
      return {"False", "Infeasible", infeasible_message(verdict)};
    case Standing::Unmeasured:
      return {"Unknown", "LatencyUnknown",
              "The latency of these services is unknown: " + names(verdict.services) + "."};
    case Standing::NoDecision:
      return {"Unknown", "NoDecision", "The agent gets no decisions from the server."};
    case Standing::NotManaged:
      break;
  }
  return {"Unknown", "NotManaged", "No service with a latency target is on this node."};
}

Condition stopped_condition() { return {"Unknown", "AgentStopped", "The agent was stopped."}; }

std::string status_body(const StatusPatch& patch) {
  json status = json::object();
  if (patch.condition) {
    status["conditions"] = {{{"type", condition_type},
                             {"status", patch.condition->status},
                             {"reason", patch.condition->reason},
                             {"message", patch.condition->message},
                             {"lastHeartbeatTime", kubernetes_time(patch.now_unix_s)},
                             {"lastTransitionTime", kubernetes_time(patch.changed_unix_s)}}};
  }
  if (patch.jobs) {
    const auto& millicpus = patch.jobs->millicpus;
    status["capacity"] = {{jobs_resource, millicpus ? json(std::to_string(*millicpus)) : json(nullptr)}};
  }
  return json_text({{"status", status}});
}

std::optional<EventText> event_of(const Verdict& news, bool warned) {
  const std::string message = condition_of(news).message;
  if (news.standing == Standing::Infeasible) return EventText{"Warning", "LatencyTargetsInfeasible", message};
  if (news.standing == Standing::Missed) return EventText{"Warning", "LatencyTargetsMissed", message};
  if (news.standing == Standing::Met && warned) return EventText{"Normal", "LatencyTargetsMet", message};
  return std::nullopt;
}

std::string event_body(const std::string& node, const std::string& name, const EventText& text,
                       const EventCount& seen) {
  return json_text({{"apiVersion", "v1"},
                    {"kind", "Event"},
                    {"metadata", {{"name", name}, {"namespace", events_namespace}}},
                    // as kubelets write it: `kubectl describe node` looks for the name in both places
                    {"involvedObject", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}, {"uid", node}}},
                    {"type", text.type},
                    {"reason", text.reason},
                    {"message", text.message},
                    {"source", {{"component", component}, {"host", node}}},
                    {"reportingComponent", component},
                    {"reportingInstance", node},
                    {"count", seen.count},
                    {"firstTimestamp", kubernetes_time(seen.first_unix_s)},
                    {"lastTimestamp", kubernetes_time(seen.last_unix_s)}});
}

std::string repeated_event_body(const EventText& text, const EventCount& seen) {
  return json_text(
      {{"message", text.message}, {"count", seen.count}, {"lastTimestamp", kubernetes_time(seen.last_unix_s)}});
}

std::string kubernetes_time(double unix_s) {
  const auto seconds = static_cast<std::time_t>(unix_s);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace osml
