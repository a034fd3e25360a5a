#include "config/sections.h"

#include <algorithm>
#include <cctype>

#include "config/url.h"
#include "domain/forms.h"

namespace osml {

namespace {

constexpr NumberRange timeout_range{0, 60, true, "seconds above 0 and at most 60"};
constexpr NumberRange kubelet_timeout_range{0, 10, true, "seconds above 0 and at most 10"};
constexpr NumberRange quantum_range{0.01, 1, false, "auto, or logical CPUs from 0.01 to 1"};
constexpr NumberRange period_range{2, 1000, false, "milliseconds from 2 to 1000"};
constexpr NumberRange memory_range{16, 1e9, false, "MiB from 16 to 1000000000"};
constexpr NumberRange iops_range{1, 1e9, false, "reads a second from 1 to 1000000000"};
constexpr NumberRange hint_range{0, 1e9, true, "a number above 0"};

// A name in /sys/block, which may hold '!' for a slash.
bool is_disk(const std::string& name) {
  constexpr std::size_t longest = 31;
  return !name.empty() && name.size() <= longest && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '!' || c == '-' || c == '_' || c == '.';
         });
}

void read_disks(YamlSection& section, std::vector<std::string>& disks) {
  const YAML::Node names = section.child("disks");
  if (!names.IsDefined()) return;
  constexpr const char* expected = "a list of names in /sys/block, such as [sda, nvme0n1]";
  if (!names.IsSequence() || names.size() == 0) return section.wrong("disks", expected);
  for (const YAML::Node& name : names) {
    if (!name.IsScalar() || !is_disk(name.Scalar())) return section.wrong("disks", expected);
    disks.push_back(name.Scalar());
  }
}

// As in /proc/interrupts; the kernel makes directories of them.
bool is_interrupt_name(const std::string& name) {
  constexpr std::size_t longest = 127;
  return !name.empty() && name.size() <= longest &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return c != '/' && std::iscntrl(c) == 0; });
}

void read_interrupt_names(YamlSection& section, std::vector<std::string>& names) {
  const YAML::Node list = section.child("interrupt_names");
  if (!list.IsDefined()) return;
  constexpr const char* expected = "a list of names in /proc/interrupts, such as [\"nvme*\", eth0]";
  if (!list.IsSequence() || list.size() == 0) return section.wrong("interrupt_names", expected);
  for (const YAML::Node& name : list) {
    if (!name.IsScalar() || !is_interrupt_name(name.Scalar())) return section.wrong("interrupt_names", expected);
    names.push_back(name.Scalar());
  }
}

std::optional<std::uint64_t> whole(const std::optional<double>& number) {
  return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

}  // namespace

ServerConfig read_server(const YAML::Node& node, const fs::path& base, Problems& problems) {
  YamlSection section(
      node, "server", problems,
      {"url", "timeout_s", "token_file", "ca_file", "client_cert_file", "client_key_file", "experiences"});
  ServerConfig server;
  if (const auto url = section.text("url")) {
    server.url = *url;
    while (server.url.size() > 1 && server.url.back() == '/') server.url.pop_back();
    if (const auto error = base_url_error(server.url, "use server.token_file"))
      section.problem("url", "'" + without_credentials(*url) + "', " + *error);
    if (server.url.ends_with("/v1") || server.url.ends_with("/v1/decisions")) {
      section.problem("url",
                      "'" + without_credentials(*url) + "', expected the address without /v1; the agent appends /v1");
    }
  } else if (!section.has("url")) {
    section.missing("url", "the address of the decision server, such as http://127.0.0.1:8080");
  }
  server.timeout_s = section.number("timeout_s", timeout_range).value_or(server.timeout_s);
  server.token_file = section.file("token_file", base);
  server.ca_file = section.file("ca_file", base);
  server.client_cert_file = section.file("client_cert_file", base);
  server.client_key_file = section.file("client_key_file", base);
  if (server.client_cert_file.has_value() != server.client_key_file.has_value()) {
    section.problem(server.client_cert_file ? "client_cert_file" : "client_key_file",
                    "expected client_cert_file and client_key_file together");
  }
  server.experiences = section.choice("experiences", {"on", "off"}).value_or("on") == "on";
  return server;
}

Roots read_roots(const YAML::Node& node, const fs::path& base, Problems& problems) {
  YamlSection section(node, "roots", problems, {"resctrl", "cgroup", "proc", "sysfs", "docker", "irq"});
  Roots roots;
  roots.resctrl = section.file("resctrl", base).value_or(roots.resctrl);
  roots.cgroup = section.file("cgroup", base).value_or(roots.cgroup);
  roots.proc = section.file("proc", base).value_or(roots.proc);
  roots.sysfs = section.file("sysfs", base).value_or(roots.sysfs);
  roots.docker = section.file("docker", base).value_or(roots.docker);
  roots.irq = section.file("irq", base).value_or(roots.irq);
  return roots;
}

CpuConfig read_cpu(const YAML::Node& node, Problems& problems) {
  YamlSection section(node, "cpu", problems, {"backend", "quantum", "cpus", "cache_domains", "memory_nodes"});
  CpuConfig cpu;
  cpu.backend = section.choice("backend", {"auto", "cgroup2", "cgroup1", "affinity"}).value_or(cpu.backend);
  const YAML::Node quantum = section.child("quantum");
  if (quantum.IsDefined() && !(quantum.IsScalar() && quantum.Scalar() == "auto")) {
    cpu.quantum = section.number("quantum", quantum_range);
  }
  cpu.cpus = section.text("cpus");
  if (cpu.cpus && !is_cpu_list(*cpu.cpus)) section.wrong("cpus", "a CPU list such as 0-3,8");
  cpu.place = section.choice("cache_domains", {"off", "place"}).value_or("off") == "place";
  cpu.follow_memory = section.choice("memory_nodes", {"off", "follow"}).value_or("off") == "follow";
  return cpu;
}

PlatformHints read_platform_hints(const YAML::Node& node, Problems& problems) {
  YamlSection section(node, "platform", problems, {"id", "bandwidth_gbps", "memory_gib", "frequency_ghz"});
  PlatformHints hints;
  hints.id = section.text("id");
  hints.bandwidth_gbps = section.number("bandwidth_gbps", hint_range);
  hints.memory_gib = section.number("memory_gib", hint_range);
  hints.frequency_ghz = section.number("frequency_ghz", hint_range);
  return hints;
}

BandwidthConfig read_bandwidth(const YAML::Node& node, const fs::path& base, Problems& problems) {
  YamlSection section(node, "bandwidth", problems, {"curve", "regulator", "period_ms"});
  BandwidthConfig bandwidth;
  bandwidth.curve = section.file("curve", base);
  bandwidth.regulator = section.choice("regulator", {"on", "off"}).value_or("off") == "on";
  bandwidth.period_ms = section.number("period_ms", period_range).value_or(bandwidth.period_ms);
  return bandwidth;
}

LeversConfig read_levers(const YAML::Node& node, Roots& roots, Problems& problems) {
  YamlSection section(node, "levers", problems,
                      {"memory", "memory_mib", "disk", "disk_iops", "disks", "realtime", "frequency", "idle",
                       "interrupts", "interrupt_names"});
  LeversConfig levers;
  const auto is_on = [&](const char* key) { return section.choice(key, {"on", "off"}).value_or("off") == "on"; };
  levers.memory = is_on("memory");
  levers.disk = is_on("disk");
  levers.realtime = is_on("realtime");
  levers.frequency = is_on("frequency");
  levers.idle = is_on("idle");
  levers.interrupts = is_on("interrupts");
  read_interrupt_names(section, levers.interrupt_names);
  levers.memory_mib = whole(section.number("memory_mib", memory_range));
  levers.disk_iops = whole(section.number("disk_iops", iops_range));
  read_disks(section, roots.disks);
  if (levers.disk && !section.has("disk_iops")) {
    section.missing("disk_iops", "the random reads a second of the disks, which no file of the kernel tells");
  }
  return levers;
}

MetricsConfig read_metrics(const YAML::Node& node, const fs::path& base, Problems& problems) {
  YamlSection section(node, "metrics", problems, {"textfile"});
  MetricsConfig metrics;
  metrics.textfile = section.file("textfile", base);
  if (metrics.textfile && metrics.textfile->extension() != ".prom") {
    section.wrong("textfile",
                  "a name that ends in .prom; the textfile collector of node_exporter reads only such files");
  }
  return metrics;
}

KubeletConfig read_kubelet(const YAML::Node& node, const fs::path& base, Problems& problems) {
  YamlSection section(node, "kubelet", problems,
                      {"url", "timeout_s", "token_file", "ca_file", "server_name", "guaranteed", "discover"});
  KubeletConfig kubelet;
  if (const auto url = section.text("url")) {
    kubelet.url = *url;
    if (const auto error = url_error(*url, "use kubelet.token_file")) {
      section.problem("url", "'" + without_credentials(*url) + "', " + *error);
    } else if (!url->starts_with("https://")) {
      section.wrong("url", "an https address, since the agent sends its token there");
    }
  }
  kubelet.timeout_s = section.number("timeout_s", kubelet_timeout_range).value_or(kubelet.timeout_s);
  kubelet.token_file = section.file("token_file", base).value_or(kubelet.token_file);
  kubelet.ca_file = section.file("ca_file", base);
  kubelet.server_name = section.text("server_name");
  if (kubelet.server_name && !is_name_in_dns(*kubelet.server_name)) {
    section.wrong("server_name", "the name in the kubelet's certificate, such as node-17");
  }
  const bool take = section.choice("guaranteed", {"leave", "take"}).value_or("leave") == "take";
  kubelet.guaranteed = take ? Guaranteed::Take : Guaranteed::Leave;
  if (section.has("discover")) kubelet.discover = read_discover(section.child("discover"), base, problems);
  return kubelet;
}

LogConfig read_log(const YAML::Node& node, Problems& problems) {
  YamlSection section(node, "log", problems, {"level", "format"});
  LogConfig log;
  log.level = section.choice("level", {"trace", "debug", "info", "warn", "error"}).value_or(log.level);
  log.format = section.choice("format", {"text", "json"}).value_or(log.format);
  return log;
}

}  // namespace osml
