// The JSON that goes to the API server: types Node (its status) and Event of core/v1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kubernetes/verdict.h"

namespace osml {

inline constexpr const char* condition_type = "osml.dev/LatencyTargetsMet";
inline constexpr const char* jobs_resource = "osml.dev/batch-millicpu";
inline constexpr const char* merge_patch = "application/strategic-merge-patch+json";
// Events of nodes, which are in no namespace, belong to this one; the API server refuses most others.
inline constexpr const char* events_namespace = "default";

struct Condition {
  std::string status;  // True | False | Unknown
  std::string reason;
  std::string message;
};

Condition condition_of(const Verdict& verdict);
Condition stopped_condition();

// Of the node's capacity: a number, or gone. The kubelet copies the capacity of such resources to what is allocatable.
struct JobsResource {
  std::optional<std::uint64_t> millicpus;
};

// `changed_unix_s`: when the status of the condition changed last.
struct StatusPatch {
  std::optional<Condition> condition;
  double now_unix_s = 0;
  double changed_unix_s = 0;
  std::optional<JobsResource> jobs;
};
std::string status_body(const StatusPatch& patch);

struct EventText {
  std::string type;  // Normal | Warning
  std::string reason;
  std::string message;
};
// None where the news is none for an operator. `warned`: the last event was a warning.
std::optional<EventText> event_of(const Verdict& news, bool warned);

struct EventCount {
  std::uint64_t count = 1;
  double first_unix_s = 0;
  double last_unix_s = 0;
};
// A new event, and the repetition of one that is there.
std::string event_body(const std::string& node, const std::string& name, const EventText& text, const EventCount& seen);
std::string repeated_event_body(const EventText& text, const EventCount& seen);

// RFC 3339 in UTC, whole seconds.
std::string kubernetes_time(double unix_s);

}  // namespace osml
