// What the operator says, as a plain struct: nothing behind it knows YAML. Durations are node time (wall time times
// time_scale) except server.timeout_s, which is wall time. Every key is described in docs/reference/agent-config.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "domain/types.h"

namespace osml {

struct ServerConfig {
  std::string url;  // http(s)://host[:port][/prefix], no trailing slash
  double timeout_s = 0.5;
  std::optional<fs::path> token_file;
  std::optional<fs::path> ca_file, client_cert_file, client_key_file;
  bool experiences = true;  // send what came of the decisions, for online learning
};

struct Roots {
  fs::path resctrl = "/sys/fs/resctrl";
  fs::path cgroup = "/sys/fs/cgroup";
  fs::path proc = "/proc";
  fs::path sysfs = "/sys";
  fs::path docker = "/var/lib/docker";
  // Names in <sysfs>/block that disk_iops limits; empty = every disk that is hardware.
  std::vector<std::string> disks = {};
  // Numbers of interrupts; empty = irq below proc.
  fs::path irq = {};
  // Where the budgets of the software regulator are kept (below state_dir); empty = it is off.
  fs::path budgets = {};

  bool operator==(const Roots&) const = default;
};

struct CpuConfig {
  std::string backend = "auto";     // auto | cgroup2 | cgroup1 | affinity
  std::optional<double> quantum;    // absent = auto; 1.0 = whole CPUs, below = slices of CPU quota
  std::optional<std::string> cpus;  // kernel CPU list that may be handed out; absent = all
  bool place = false;               // services may be placed in cache domains
  bool follow_memory = false;       // the memory of a service goes to the NUMA nodes of its CPUs

  // CPUs that a limit of cores counts in. With auto the core unit changes as pods come and go, and no limit may.
  [[nodiscard]] double limit_unit() const { return quantum.value_or(1.0); }

  bool operator==(const CpuConfig&) const = default;
};

// Memory bandwidth: how MBA percentages are translated, and what stands in for MBA where there is none.
struct BandwidthConfig {
  std::optional<fs::path> curve;  // from calibrate-mba
  bool regulator = false;
  double period_ms = 20;  // node time
};

// What decisions may set beside CPUs, cache and memory bandwidth; all off, so that nothing is throttled by surprise.
struct LeversConfig {
  bool memory = false;
  bool disk = false;
  bool realtime = false;
  bool frequency = false;
  bool idle = false;                         // jobs get cpu.idle while the agent manages the node
  bool interrupts = false;                   // of devices are kept off the CPUs of services
  std::vector<std::string> interrupt_names;  // those that may be moved, "nvme*" of several; empty = all
  std::optional<std::uint64_t> memory_mib;   // of all services together; absent = nine tenths of the memory
  std::optional<std::uint64_t> disk_iops;    // reads a second of all services together

  bool operator==(const LeversConfig&) const = default;
};

// What sysfs does not tell about the machine.
struct PlatformHints {
  std::optional<std::string> id;
  std::optional<double> bandwidth_gbps, memory_gib, frequency_ghz;
};

// A pod of this node, by its name or by labels that it has.
struct PodMatch {
  std::string name_space;
  std::string name;  // empty: by labels
  std::map<std::string, std::string> labels;
  std::string container;  // empty: the whole pod

  bool operator==(const PodMatch&) const = default;
};

// Which tasks are the service. In the configuration exactly one is set. Where it is a unit, container or pod, the place
// of the service (locate/place.h) has the cgroup that was found, and by what.
struct Match {
  std::optional<std::string> cgroup;  // path below the cgroup root (v2) or below each controller (v1)
  std::vector<int> pids;
  std::optional<fs::path> pid_file;
  std::optional<std::string> systemd;  // name of a unit
  std::optional<std::string> docker;   // name or id of a container
  std::optional<PodMatch> pod;
  std::string found_by;

  bool operator==(const Match&) const = default;
};

struct PrometheusSource {
  std::string url;
  std::string metric;  // name of the histogram, without _bucket, _sum, _count
  std::map<std::string, std::string> labels;
  double unit_ms = 1000.0;  // milliseconds in one unit of the histogram
  bool of_pod = false;      // a pod named it: less of its answer is read

  bool operator==(const PrometheusSource&) const = default;
};

// Exactly one of file, prometheus and datagram is set.
struct LatencySource {
  std::optional<fs::path> file;
  std::optional<PrometheusSource> prometheus;
  std::optional<fs::path> datagram;  // socket that the agent makes
  unsigned datagram_mode = 0660;
  std::optional<double> max_age_s;  // absent = as max_age_of() says

  bool operator==(const LatencySource&) const = default;
};
// Node time for which a telemetry file or a datagram counts: a service writes once an interval, at its own time of it.
double max_age_of(const std::optional<LatencySource>& source, double interval_s);

// What decisions may set, beyond cores and ways, which policies know of too (Service).
struct Limits {
  bool min_cores_given = false;                    // else a quota may be less than the one core that is the default
  std::optional<unsigned> min_mba, max_mba;        // in the platform's unit
  std::optional<unsigned> min_weight, max_weight;  // cgroup v2 scale
  std::optional<std::uint64_t> min_memory_mib, max_memory_mib, min_disk_iops, max_disk_iops;
  std::optional<unsigned> max_core_step, max_way_step;  // how much one decision may give or take

  bool operator==(const Limits&) const = default;
};

struct ServiceConfig {
  Service spec;  // the operator's part: name, kind, target, limits; nothing measured
  Limits limits = {};
  Match match;
  std::optional<LatencySource> latency;
  std::optional<fs::path> counters_file;
  bool watched = false;  // measured, and in no observation: nobody knows its latency

  bool operator==(const ServiceConfig&) const = default;
};

// The agent's own figures.
struct MetricsConfig {
  std::optional<fs::path> textfile;  // for node_exporter's textfile collector
};

struct LogConfig {
  std::string level = "info";   // trace | debug | info | warn | error
  std::string format = "text";  // text | json
};

// Pods with CPUs that the kubelet's static CPU manager gave them alone.
enum class Guaranteed { Leave, Take };

// Services that the pods of this node ask for by annotations (locate/annotations.h), or that a LatencyTarget asks for
// (locate/latency_target.h). Off without namespaces.
struct DiscoverConfig {
  std::vector<std::string> namespaces;  // whose pods may; "*" = all
  bool latency_targets = false;         // the API server is asked for them, as the section kubernetes says
  double latency_targets_every_s = 10;
  unsigned per_namespace = 8;  // services of one namespace on this node
  double min_target_ms = 1;
  double max_target_ms = 60000;
  std::optional<fs::path> datagram_directory;  // of the sockets; absent = no service may have one
  unsigned datagram_mode = 0660;
  Service spec = {};  // least and most cores and ways of each, nothing else
  Limits limits = {};

  [[nodiscard]] bool on() const { return !namespaces.empty(); }
  [[nodiscard]] bool lists_targets() const { return on() && latency_targets; }
};

// Who knows the pods of this node.
struct KubeletConfig {
  std::string url = "https://127.0.0.1:10250/pods";
  double timeout_s = 0.5;
  fs::path token_file = "/var/run/secrets/kubernetes.io/serviceaccount/token";
  std::optional<fs::path> ca_file;
  std::optional<std::string> server_name;  // in its certificate, where that is not the address
  Guaranteed guaranteed = Guaranteed::Leave;
  DiscoverConfig discover;
};

// The API server, and what it is told of this node (kubernetes/reporter.h). No report is on by default.
struct KubernetesConfig {
  bool condition = false;
  bool events = false;
  bool batch_cpu = false;
  std::string node_name = {};  // in the cluster
  std::string url = "https://kubernetes.default.svc";
  double timeout_s = 2;  // wall time
  fs::path token_file = "/var/run/secrets/kubernetes.io/serviceaccount/token";
  fs::path ca_file = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
  double heartbeat_s = 300;

  [[nodiscard]] bool on() const { return condition || events || batch_cpu; }
  bool operator==(const KubernetesConfig&) const = default;
};

enum class Fallback { Hold, Even, Release };
enum class OnExit { Restore, Leave };

struct Config {
  std::string node;
  ServerConfig server;
  std::optional<std::string> policy;
  double interval_s = 1.0;
  double time_scale = 1.0;
  double hold_s = 10.0;
  Fallback fallback = Fallback::Hold;
  OnExit on_exit = OnExit::Restore;
  fs::path state_dir = "/var/lib/osml";
  Roots roots;
  CpuConfig cpu;
  PlatformHints platform;
  BandwidthConfig bandwidth;
  LeversConfig levers;
  MetricsConfig metrics;
  LogConfig log;
  KubeletConfig kubelet;
  KubernetesConfig kubernetes;
  std::vector<ServiceConfig> services;
};

// Reads and checks the file. The error names every mistake in it, one line each: file:line:column: field ... Refuses
// files that everybody can write, since whoever writes them moves other people's tasks.
Result<Config> load_config(const fs::path& path);
// Same, of a text; `name` stands in the messages.
Result<Config> parse_config(const std::string& text, const std::string& name);

}  // namespace osml
