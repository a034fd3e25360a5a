// The list of services: who they are, what they may cost, how their tasks and latencies are found.
#include <map>

#include "base/unix_socket.h"
#include "config/sections.h"
#include "config/url.h"
#include "domain/forms.h"

namespace osml {

namespace {

constexpr NumberRange positive_ms{0, 1e9, true, "milliseconds above 0"};
constexpr NumberRange positive{0, 1e15, true, "a number above 0"};
constexpr NumberRange age_range{0, 86400, true, "seconds above 0 and at most 86400"};

PrometheusSource read_prometheus(const YAML::Node& node, const std::string& path, Problems& problems) {
  YamlSection section(node, path, problems, {"url", "metric", "labels", "unit"});
  PrometheusSource source;
  if (const auto url = section.text("url")) {
    source.url = *url;
    if (const auto error = url_error(*url)) section.problem("url", "'" + without_credentials(*url) + "', " + *error);
  } else if (!section.has("url")) {
    section.missing("url", "the address of the metrics, such as http://127.0.0.1:9100/metrics");
  }
  if (const auto metric = section.text("metric")) {
    source.metric = *metric;
  } else if (!section.has("metric")) {
    section.missing("metric", "the name of a histogram, without _bucket");
  }
  const YAML::Node labels = section.child("labels");
  if (labels.IsDefined() && !labels.IsMap()) section.wrong("labels", "a mapping such as {handler: /search}");
  if (labels.IsDefined() && labels.IsMap()) {
    for (const auto& label : labels) {
      if (label.first.IsScalar() && label.second.IsScalar()) {
        source.labels[label.first.Scalar()] = label.second.Scalar();
      } else {
        problems.add(label.first.Mark(), section.path("labels") + ": expected texts, such as handler: /search");
      }
    }
  }
  const bool milliseconds = section.choice("unit", {"seconds", "milliseconds"}).value_or("seconds") == "milliseconds";
  source.unit_ms = milliseconds ? 1.0 : 1000.0;
  return source;
}

void read_datagram(YamlSection& section, const fs::path& base, LatencySource& source) {
  source.datagram = section.file("datagram", base);
  if (source.datagram && source.datagram->native().size() > longest_socket_path) {
    section.problem("datagram",
                    "'" + source.datagram->string() + "' has " + std::to_string(source.datagram->native().size()) +
                        " bytes, expected a socket path of at most " + std::to_string(longest_socket_path) + " bytes");
  }
  const auto mode = section.choice("datagram_mode", {"0600", "0660", "0666"});
  if (mode) source.datagram_mode = *mode == "0600" ? 0600 : *mode == "0660" ? 0660 : 0666;
  if (mode && !section.has("datagram")) section.wrong("datagram_mode", "no datagram_mode, because datagram is not set");
}

LatencySource read_latency(const YAML::Node& node, const std::string& path, const fs::path& base, Problems& problems) {
  YamlSection section(node, path, problems, {"file", "prometheus", "datagram", "datagram_mode", "max_age_s"});
  LatencySource source;
  read_datagram(section, base, source);
  source.file = section.file("file", base);
  if (section.has("prometheus")) {
    source.prometheus = read_prometheus(section.child("prometheus"), section.path("prometheus"), problems);
  }
  source.max_age_s = section.number("max_age_s", age_range);
  const int given =
      (section.has("file") ? 1 : 0) + (section.has("prometheus") ? 1 : 0) + (section.has("datagram") ? 1 : 0);
  if (given != 1) {
    problems.add(node.Mark(), path + ": " +
                                  (given == 0   ? "no source"
                                   : given == 2 ? "two sources"
                                                : "three sources") +
                                  ", expected exactly one of file, prometheus, datagram");
  }
  return source;
}

void check_order(YamlSection& section, const char* least, const char* most, std::optional<std::uint64_t> low,
                 std::optional<std::uint64_t> high) {
  if (low && high && *high < *low)
    section.wrong(most, "at least " + std::string(least) + ", which is " + std::to_string(*low));
}

std::optional<std::uint64_t> amount(YamlSection& section, const char* key) {
  constexpr NumberRange range{1, 1e9, false, "a number from 1 to 1000000000"};
  const auto number = section.number(key, range);
  return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

Limits read_other_limits(YamlSection& section) {
  constexpr unsigned most_weight = 10'000;  // of cgroup v2
  Limits limits;
  limits.min_cores_given = section.has("min_cores");
  limits.min_mba = section.count("min_mba", 1, most_mba);
  limits.max_mba = section.count("max_mba", 1, most_mba);
  limits.min_weight = section.count("min_weight", 1, most_weight);
  limits.max_weight = section.count("max_weight", 1, most_weight);
  limits.min_memory_mib = amount(section, "min_memory_mib");
  limits.max_memory_mib = amount(section, "max_memory_mib");
  limits.min_disk_iops = amount(section, "min_disk_iops");
  limits.max_disk_iops = amount(section, "max_disk_iops");
  limits.max_core_step = section.count("max_core_step", 1);
  limits.max_way_step = section.count("max_way_step", 1);
  check_order(section, "min_mba", "max_mba", limits.min_mba, limits.max_mba);
  check_order(section, "min_weight", "max_weight", limits.min_weight, limits.max_weight);
  check_order(section, "min_memory_mib", "max_memory_mib", limits.min_memory_mib, limits.max_memory_mib);
  check_order(section, "min_disk_iops", "max_disk_iops", limits.min_disk_iops, limits.max_disk_iops);
  return limits;
}

}  // namespace

Limits read_limits(const YAML::Node& node, const std::string& path, Service& service, Problems& problems) {
  YamlSection section(
      node, path, problems,
      {"min_cores", "max_cores", "min_ways", "max_ways", "min_mba", "max_mba", "min_weight", "max_weight",
       "min_memory_mib", "max_memory_mib", "min_disk_iops", "max_disk_iops", "max_core_step", "max_way_step"});
  service.min_cores = section.count("min_cores", 1).value_or(1);
  service.max_cores = section.count("max_cores", 1);
  service.min_ways = section.count("min_ways", 1).value_or(1);
  service.max_ways = section.count("max_ways", 1);
  check_order(section, "min_cores", "max_cores", service.min_cores, service.max_cores);
  check_order(section, "min_ways", "max_ways", service.min_ways, service.max_ways);
  return read_other_limits(section);
}

namespace {

void read_goal(YamlSection& section, Service& service) {
  service.target_ms = section.number("target_ms", positive_ms);
  service.percentile = section.choice("percentile", {"p50", "p95", "p99", "mean"}).value_or("p99");
  service.ideal_ms = section.number("ideal_ms", positive_ms);
  service.ipc_solo = section.number("ipc_solo", positive);
  service.work_rate_solo = section.number("work_rate_solo", positive);
  const bool lc = service.kind == "lc";
  if (lc && !section.has("target_ms"))
    section.missing("target_ms", "milliseconds: a service of class lc needs a latency target");
  if (lc && !section.has("latency")) {
    section.missing("latency", "a latency source (file, prometheus or datagram): a service of class lc needs one");
  }
  if (!lc && section.has("target_ms")) {
    section.wrong("target_ms",
                  "no latency target for a best-effort job (class be); remove target_ms, or set class: lc");
  }
}

ServiceConfig read_service(const YAML::Node& node, const std::string& path, const fs::path& base, Problems& problems) {
  YamlSection section(node, path, problems,
                      {"name", "class", "target_ms", "percentile", "ideal_ms", "ipc_solo", "work_rate_solo", "limits",
                       "match", "latency", "counters"});
  ServiceConfig service;
  service.spec.name = section.text("name").value_or("");
  if (!section.has("name")) section.missing("name", "the name of the service");
  if (section.has("name") && !is_name(service.spec.name)) {
    section.wrong("name", "at most 63 letters, digits, '_', '.' or '-'; the first one a letter or digit");
  }
  if (!section.has("class")) section.missing("class", "lc (latency-critical) or be (best-effort)");
  service.spec.kind = section.choice("class", {"lc", "be"}).value_or("lc");
  read_goal(section, service.spec);
  if (section.has("limits")) {
    service.limits = read_limits(section.child("limits"), section.path("limits"), service.spec, problems);
  }
  if (section.has("match")) {
    service.match = read_match(section.child("match"), section.path("match"), base, problems);
  } else {
    section.missing("match", "how to find the tasks: one of cgroup, pids, pid_file, systemd, docker, pod");
  }
  if (section.has("latency")) {
    service.latency = read_latency(section.child("latency"), section.path("latency"), base, problems);
  }
  if (section.has("counters")) {
    YamlSection counters(section.child("counters"), section.path("counters"), problems, {"file"});
    service.counters_file = counters.file("file", base);
    if (!counters.has("file")) counters.missing("file", "a telemetry file");
  }
  return service;
}

}  // namespace

std::vector<ServiceConfig> read_services(const YAML::Node& node, const fs::path& base, Problems& problems) {
  std::vector<ServiceConfig> services;
  // An empty list is meant: of an agent that waits for its services.
  if (!node.IsDefined() || !node.IsSequence() || node.size() > max_services) {
    problems.add(node.IsDefined() ? node.Mark() : YAML::Mark::null_mark(),
                 "services: expected a list of at most " + std::to_string(max_services) + " services");
    return services;
  }
  std::map<std::string, std::string> places;
  std::map<fs::path, std::string> sockets;
  for (std::size_t i = 0; i < node.size(); ++i) {
    const std::string path = "services[" + std::to_string(i) + "]";
    services.push_back(read_service(node[i], path, base, problems));
    if (const auto& latency = services.back().latency; latency && latency->datagram) {
      const auto [other, is_new] = sockets.emplace(latency->datagram->lexically_normal(), path);
      if (!is_new) {
        problems.add(node[i].Mark(), path + ".latency.datagram: '" + latency->datagram->string() +
                                         "' is also the socket of " + other->second +
                                         ", expected a separate socket for each service");
      }
    }
    const std::string& name = services.back().spec.name;
    const auto [first, added] = places.emplace(name, path);
    if (added || name.empty()) continue;
    std::string what = path;
    what.append(".name: '").append(name).append("' is also the name of ").append(first->second);
    problems.add(node[i].Mark(), what + ", expected a different name for each service");
  }
  return services;
}

}  // namespace osml
