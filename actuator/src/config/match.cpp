// How the tasks of a service are found: one of a cgroup, processes, a unit of systemd, a container, a pod.
#include <algorithm>
#include <array>
#include <string_view>

#include "config/sections.h"
#include "domain/forms.h"

namespace osml {

namespace {

constexpr std::array<const char*, 6> ways_to_find = {"cgroup", "pids", "pid_file", "systemd", "docker", "pod"};

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool consists_of(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_letter_or_digit(c) || others.find(c) != std::string_view::npos; });
}

// As systemd allows them, of the kinds that have a cgroup.
bool is_unit(std::string_view text) {
  constexpr std::size_t longest = 255;
  const bool has_cgroup = text.ends_with(".service") || text.ends_with(".scope") || text.ends_with(".slice");
  return has_cgroup && !text.starts_with('.') && text.size() <= longest && consists_of(text, ":_.\\@-");
}

bool is_container(std::string_view text) {
  constexpr std::size_t longest = 255;
  return text.size() <= longest && is_letter_or_digit(text.front()) && consists_of(text, "_.-");
}

void read_labels(YamlSection& section, PodMatch& pod) {
  const YAML::Node labels = section.child("labels");
  if (!labels.IsDefined()) return;
  if (!labels.IsMap() || labels.size() == 0) {
    section.wrong("labels", "a mapping such as {app: search}");
    return;
  }
  for (const auto& label : labels) {
    const bool texts = label.first.IsScalar() && label.second.IsScalar();
    if (texts && is_label_key(label.first.Scalar()) && is_label_value(label.second.Scalar())) {
      pod.labels[label.first.Scalar()] = label.second.Scalar();
    } else {
      section.problems().add(label.first.Mark(), section.path("labels") + ": expected labels such as app: search");
    }
  }
}

PodMatch read_pod(const YAML::Node& node, const std::string& path, Problems& problems) {
  YamlSection section(node, path, problems, {"namespace", "name", "labels", "container"});
  PodMatch pod;
  const auto name_of = [&](const char* key) {
    const auto text = section.text(key);
    if (text && !is_name_in_dns(*text)) section.wrong(key, "lower-case letters, digits, '-' and '.'");
    return text.value_or("");
  };
  pod.name_space = name_of("namespace");
  if (!section.has("namespace")) section.missing("namespace", "the namespace of the pod, such as default");
  pod.name = name_of("name");
  pod.container = name_of("container");
  read_labels(section, pod);
  if (section.has("name") == section.has("labels")) {
    problems.add(node.Mark(), path + (section.has("name") ? ": name and labels, expected one of them"
                                                          : ": neither name nor labels, expected one of them"));
  }
  return pod;
}

void read_cgroup(YamlSection& section, Match& match) {
  const auto text = section.text("cgroup");
  if (!text) return;
  const fs::path path(*text);
  // One cgroup has one path here: whether one contains another is seen by comparing the two.
  match.cgroup = plain_path(path);
  if (path.is_absolute()) {
    section.wrong("cgroup", "a path below the cgroup root, without leading '/'");
  } else if (std::find(path.begin(), path.end(), "..") != path.end()) {
    section.wrong("cgroup", "a path below the cgroup root, without '..'");
  } else if (match.cgroup->empty() || *match.cgroup == ".") {
    section.wrong("cgroup", "a cgroup below the root, not the root itself");
  }
}

void read_pids(YamlSection& section, Match& match) {
  const YAML::Node pids = section.child("pids");
  if (pids.IsDefined() && (!pids.IsSequence() || pids.size() == 0))
    section.wrong("pids", "a list such as [4711, 4712]");
  if (!pids.IsDefined() || !pids.IsSequence()) return;
  for (const YAML::Node& pid : pids) {
    int value = 0;
    if (YAML::convert<int>::decode(pid, value) && value > 0) {
      match.pids.push_back(value);
    } else {
      section.problems().add(pid.Mark(), section.path("pids") + ": expected process ids above 0");
    }
  }
}

}  // namespace

Match read_match(const YAML::Node& node, const std::string& path, const fs::path& base, Problems& problems) {
  YamlSection section(node, path, problems, {ways_to_find.begin(), ways_to_find.end()});
  Match match;
  read_cgroup(section, match);
  read_pids(section, match);
  match.pid_file = section.file("pid_file", base);
  match.systemd = section.text("systemd");
  if (match.systemd && !is_unit(*match.systemd)) {
    section.wrong("systemd", "the full name of a service, scope or slice, such as redis.service");
  }
  match.docker = section.text("docker");
  if (match.docker && !is_container(*match.docker)) {
    section.wrong("docker", "the name of a container, or the beginning of its id");
  }
  if (section.has("pod")) match.pod = read_pod(section.child("pod"), section.path("pod"), problems);
  const auto given =
      std::count_if(ways_to_find.begin(), ways_to_find.end(), [&](const char* key) { return section.has(key); });
  if (given != 1) {
    std::string expected;
    for (const char* way : ways_to_find) expected += (expected.empty() ? "" : ", ") + std::string(way);
    problems.add(node.Mark(),
                 path + ": " + std::to_string(given) + " ways to find the tasks, expected exactly one of " + expected);
  }
  return match;
}

}  // namespace osml
