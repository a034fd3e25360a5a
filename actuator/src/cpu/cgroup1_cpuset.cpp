#include <algorithm>
#include <cerrno>
#include <map>

#include "cpu/cgroup1.h"
#include "cpu/members.h"

namespace osml {

namespace {

constexpr const char* cpuset_file = "cpuset.cpus";

Result<CpuSet> read_cpus(const fs::path& directory) {
  const auto text = read_text(directory / cpuset_file);
  if (!text) return text.error();
  return parse_cpulist(*text);
}

Status write_cpus(const fs::path& directory, const CpuSet& cpus) {
  return write_command(directory / cpuset_file, format_cpulist(cpus) + "\n");
}

bool gone(const Error& error) { return error.code == ENOENT || error.code == ENODEV; }

// Every group must contain its children at every moment: first everybody grows to what it has and shall have, parents
// first, then everybody shrinks, children first. std::map sorts paths with parents before children.
Status set_tree(const std::map<fs::path, CpuSet>& wanted) {
  if (wanted.size() > 1) {
    for (const auto& [group, cpus] : wanted) {
      const auto now = read_cpus(group);
      if (!now) {
        if (gone(now.error())) continue;
        return now.error();
      }
      if (is_subset(cpus, *now)) continue;
      if (Status grown = write_cpus(group, unite(*now, cpus)); !grown && !gone(grown.error())) return grown;
    }
  }
  for (auto entry = wanted.rbegin(); entry != wanted.rend(); ++entry) {
    if (Status set = write_cpus(entry->first, entry->second); !set && !gone(set.error())) return set;
  }
  return done();
}

}  // namespace

fs::path cgroup1_of(const Roots& roots, const char* controller, const Match& match, Status& why) {
  if (!match.cgroup) return {};
  const auto directory = find_cgroup1(roots, controller, *match.cgroup);
  if (!directory) why = directory.error();
  return directory ? *directory : fs::path();
}

Cgroup1Cpuset::Cgroup1Cpuset(const Roots& roots, const Match& match) : path_(match.cgroup.value_or("")) {
  directory_ = cgroup1_of(roots, "cpuset", match, found_);
}

Status Cgroup1Cpuset::probe() {
  if (path_.empty()) return Error{ErrorKind::Unsupported, "the service is matched by process ids, not by a cgroup", 0};
  if (!found_) return found_;
  if (!directory_.empty() && osml::exists(directory_ / cpuset_file)) return done();
  return Error{ErrorKind::Unsupported, "there is no cgroup v1 cpuset directory " + path_, 0};
}

Result<std::string> Cgroup1Cpuset::read() { return read_text(directory_ / cpuset_file); }

Status Cgroup1Cpuset::write(const std::string& value) {
  const auto cpus = parse_cpulist(value);
  if (!cpus) return cpus.error();
  const auto tree = cgroup_tree(directory_);
  if (!tree) return tree.error();
  std::map<fs::path, CpuSet> wanted;
  for (const fs::path& group : *tree) wanted[group] = *cpus;
  return set_tree(wanted);
}

bool Cgroup1Cpuset::same(const std::string& read, const std::string& wanted) const {
  const auto a = parse_cpulist(read);
  const auto b = parse_cpulist(wanted);
  return a && b && *a == *b;
}

Result<std::string> Cgroup1Cpuset::snapshot() {
  const auto tree = cgroup_tree(directory_);
  if (!tree) return tree.error();
  std::string text;
  for (const fs::path& group : *tree) {
    const auto cpus = read_text(group / cpuset_file);
    if (!cpus && gone(cpus.error())) continue;
    if (!cpus) return cpus.error();
    text += (group == directory_ ? "." : fs::relative(group, directory_).string()) + "=" + *cpus + "\n";
  }
  return text;
}

Status Cgroup1Cpuset::restore(const std::string& snapshot) {
  if (!found_ || directory_.empty()) return found_;
  std::map<fs::path, CpuSet> wanted;
  for (const std::string_view line : split_lines(snapshot)) {
    const std::size_t equals = line.rfind('=');
    if (equals == std::string_view::npos) continue;
    const auto cpus = parse_cpulist(line.substr(equals + 1));
    if (!cpus) return cpus.error();
    const std::string below(line.substr(0, equals));
    if (!stays_below(below)) return Error{ErrorKind::Input, "journal: '" + below + "' is no path below the cgroup", 0};
    const fs::path group = below == "." ? directory_ : directory_ / below;
    const auto there = present(group / cpuset_file);
    if (!there) return there.error();
    if (*there) wanted[group] = *cpus;
  }
  return set_tree(wanted);
}

}  // namespace osml
