#include "config/config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "config/sections.h"
#include "config/trusted_file.h"
#include "domain/forms.h"

namespace osml {

namespace {

constexpr NumberRange interval_range{0.05, 3600, false, "seconds from 0.05 to 3600"};
constexpr NumberRange scale_range{0.001, 1000, false, "a factor from 0.001 to 1000"};
constexpr NumberRange hold_range{0, 1e6, false, "seconds, 0 or more"};
constexpr double shortest_tick_s = 0.01;

void read_time(YamlSection& top, Config& config) {
  config.interval_s = top.number("interval_s", interval_range).value_or(config.interval_s);
  config.time_scale = top.number("time_scale", scale_range).value_or(config.time_scale);
  config.hold_s = top.number("hold_s", hold_range).value_or(config.hold_s);
  if (config.interval_s / config.time_scale < shortest_tick_s) {
    top.wrong("time_scale", "at most 100 x interval_s: one interval needs at least 10 ms of wall time");
  }
}

void read_behaviour(YamlSection& top, Config& config) {
  const std::string fallback = top.choice("fallback", {"hold", "even", "release"}).value_or("hold");
  config.fallback = fallback == "even" ? Fallback::Even : fallback == "release" ? Fallback::Release : Fallback::Hold;
  const bool leave = top.choice("on_exit", {"restore", "leave"}).value_or("restore") == "leave";
  config.on_exit = leave ? OnExit::Leave : OnExit::Restore;
  config.policy = top.text("policy");
}

Config read_config(const YAML::Node& root, const fs::path& base, Problems& problems) {
  YamlSection top(
      root, "", problems,
      {"node", "server", "policy", "interval_s", "time_scale", "hold_s", "fallback", "on_exit", "state_dir", "roots",
       "cpu", "platform", "bandwidth", "levers", "metrics", "log", "kubelet", "kubernetes", "services"});
  if (root.IsNull()) problems.add(root.Mark(), "the file: empty, expected keys such as node: ...");
  // Not this kind of file at all: what it lacks besides is no news.
  if (!root.IsMap()) return {};
  Config config;
  config.node = top.text("node").value_or("");
  if (!top.has("node")) top.missing("node", "the name of this node");
  if (top.has("node") && !is_name(config.node)) {
    top.wrong("node", "at most 63 letters, digits, '_', '.' or '-'; the first one a letter or digit");
  }
  config.server = read_server(top.child("server"), base, problems);
  read_time(top, config);
  read_behaviour(top, config);
  config.state_dir = top.file("state_dir", base).value_or(config.state_dir);
  config.roots = read_roots(top.child("roots"), base, problems);
  config.cpu = read_cpu(top.child("cpu"), problems);
  config.platform = read_platform_hints(top.child("platform"), problems);
  config.bandwidth = read_bandwidth(top.child("bandwidth"), base, problems);
  if (config.bandwidth.regulator) config.roots.budgets = config.state_dir / "budgets";
  config.levers = read_levers(top.child("levers"), config.roots, problems);
  config.metrics = read_metrics(top.child("metrics"), base, problems);
  config.log = read_log(top.child("log"), problems);
  config.kubelet = read_kubelet(top.child("kubelet"), base, problems);
  config.kubernetes = read_kubernetes(top.child("kubernetes"), config.node, base, problems);
  config.services = read_services(top.child("services"), base, problems);
  return config;
}

}  // namespace

double max_age_of(const std::optional<LatencySource>& source, double interval_s) {
  constexpr double least_s = 3;
  return source && source->max_age_s ? *source->max_age_s : std::max(least_s, 2 * interval_s);
}

Result<Config> parse_config(const std::string& text, const std::string& name) {
  Problems problems(name);
  Config config;
  try {
    const YAML::Node root = YAML::Load(text);
    std::error_code ignored;
    config = read_config(root, fs::absolute(name, ignored).parent_path(), problems);
  } catch (const YAML::Exception& broken) {
    // ParserException and DeepRecursion: the text is no YAML at all
    problems.add(broken.mark, "not valid YAML: " + broken.msg);
  }
  if (!problems.empty()) return Error{ErrorKind::Input, problems.text()};
  return config;
}

Result<Config> load_config(const fs::path& path) {
  const auto text = read_trusted(path, "configuration");
  if (!text) return text.error();
  return parse_config(*text, path.string());
}

}  // namespace osml
