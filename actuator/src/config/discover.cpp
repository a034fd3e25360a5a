// Which pods may ask for services, by annotations or by a LatencyTarget, and what they may ask for.
#include "base/unix_socket.h"
#include "config/sections.h"
#include "domain/forms.h"

namespace osml {

namespace {

constexpr NumberRange every_range{1, 3600, false, "seconds from 1 to 3600"};
constexpr NumberRange target_range{0, 1e9, true, "milliseconds above 0"};

std::vector<std::string> read_namespaces(YamlSection& section) {
  constexpr const char* expected = "a list of namespaces such as [shop], or [\"*\"] for all";
  const YAML::Node list = section.child("namespaces");
  std::vector<std::string> namespaces;
  if (!list.IsDefined()) {
    section.missing("namespaces", expected);
    return namespaces;
  }
  const bool is_list = list.IsSequence() && list.size() <= 1024;
  if (!is_list) section.wrong("namespaces", expected);
  if (!is_list) return namespaces;
  for (const YAML::Node& one : list) {
    const std::string name = one.IsScalar() ? one.Scalar() : std::string();
    if (name == "*" || is_namespace(name)) {
      namespaces.push_back(name);
    } else {
      section.problems().add(one.Mark(), section.path("namespaces") + ": '" + name + "', expected " + expected);
    }
  }
  return namespaces;
}

// A name of a service and ".sock" come behind it.
void read_directory(YamlSection& section, const fs::path& base, DiscoverConfig& discover) {
  constexpr std::size_t longest_name = 63;
  constexpr std::size_t longest = longest_socket_path - longest_name - std::string_view("/.sock").size();
  discover.datagram_directory = section.file("datagram_directory", base);
  if (discover.datagram_directory && discover.datagram_directory->native().size() > longest) {
    section.wrong("datagram_directory", "a path of at most " + std::to_string(longest) + " bytes");
  }
  const auto mode = section.choice("datagram_mode", {"0600", "0660", "0666"});
  if (mode) discover.datagram_mode = *mode == "0600" ? 0600 : *mode == "0660" ? 0660 : 0666;
}

}  // namespace

DiscoverConfig read_discover(const YAML::Node& node, const fs::path& base, Problems& problems) {
  YamlSection section(node, "kubelet.discover", problems,
                      {"namespaces", "latency_targets", "latency_targets_every_s", "per_namespace", "min_target_ms",
                       "max_target_ms", "datagram_directory", "datagram_mode", "limits"});
  DiscoverConfig discover;
  discover.namespaces = read_namespaces(section);
  discover.latency_targets = section.choice("latency_targets", {"on", "off"}).value_or("off") == "on";
  discover.latency_targets_every_s =
      section.number("latency_targets_every_s", every_range).value_or(discover.latency_targets_every_s);
  discover.per_namespace = section.count("per_namespace", 1).value_or(discover.per_namespace);
  if (discover.per_namespace > max_services) {
    section.wrong("per_namespace", "at most " + std::to_string(max_services));
  }
  discover.min_target_ms = section.number("min_target_ms", target_range).value_or(discover.min_target_ms);
  discover.max_target_ms = section.number("max_target_ms", target_range).value_or(discover.max_target_ms);
  if (discover.max_target_ms < discover.min_target_ms) {
    section.problem("max_target_ms", "expected at least min_target_ms");
  }
  read_directory(section, base, discover);
  if (section.has("limits")) {
    discover.limits = read_limits(section.child("limits"), section.path("limits"), discover.spec, problems);
  }
  return discover;
}

}  // namespace osml
