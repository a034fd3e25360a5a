// What a pod asks for in its annotations, read as one reads a stranger's form: whoever may make a pod writes them. No
// value becomes a path or the name of a host; the names of services have the namespace in front, so that no namespace
// can take a name of another one.
//
// A LatencyTarget asks for the same in its spec (latency_target.h), and everything below holds for it too.
//
//   osml.dev/target-p99-ms: "10"      required for lc
//   osml.dev/class: lc | be           lc
//   osml.dev/service: search          the controller's name, or the pod's
//   osml.dev/container: app           the whole pod
//   osml.dev/latency: prometheus:PORT/PATH | datagram
//   osml.dev/latency-metric: http_request_duration_seconds    with prometheus: required, a histogram
//   osml.dev/latency-labels: handler=/search,method=GET
//   osml.dev/latency-unit: seconds | milliseconds             seconds
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "config/config.h"
#include "locate/latency_target.h"
#include "locate/pod_list.h"

namespace osml {

// A pod that has none of them asks for nothing by itself.
inline bool asks_for_service(const Pod& pod) { return !pod.asks.empty(); }
// Whether the operator lets pods of this namespace ask.
bool may_ask(const DiscoverConfig& discover, const std::string& name_space);
// What may stand behind a port: no query, no escapes.
bool is_metrics_path(std::string_view text);

// The error is one sentence about the annotations of this pod. An lc service without a latency is only watched.
Result<ServiceConfig> service_of(const Pod& pod, const DiscoverConfig& discover);
// The same of a LatencyTarget that selects the pod, whatever the annotations of the pod are. Without spec.service it
// has the name of the LatencyTarget.
Result<ServiceConfig> service_of(const Pod& pod, const LatencyTarget& target, const DiscoverConfig& discover);

// How an ask is called where its owner writes it: of a pod, or of a LatencyTarget.
std::string annotation_of(std::string_view key);
std::string field_of(std::string_view key);
// Whether the source of a service (Service::source) is a LatencyTarget.
bool is_of_target(const ServiceConfig& service);

}  // namespace osml
