#include <algorithm>
#include <cerrno>
#include <map>

#include "cpu/cgroup1.h"
#include "cpu/leaving_write.h"
#include "cpu/members.h"

namespace osml {

namespace {

bool gone(const Error& error) { return error.code == ENOENT || error.code == ENODEV; }

}  // namespace

fs::path cgroup1_of(const Roots& roots, const char* controller, const Match& match, Status& why) {
  if (!match.cgroup) return {};
  const auto directory = find_cgroup1(roots, controller, *match.cgroup);
  if (!directory) why = directory.error();
  return directory ? *directory : fs::path();
}

Cgroup1Cpuset::Cgroup1Cpuset(const Roots& roots, const Match& match, const char* file)
    : file_(file), path_(match.cgroup.value_or("")) {
  directory_ = cgroup1_of(roots, "cpuset", match, found_);
}

Status Cgroup1Cpuset::probe() {
  if (path_.empty()) return Error{ErrorKind::Unsupported, "matched by process ids, not by a cgroup", 0};
  if (!found_) return found_;
  if (!directory_.empty() && osml::exists(directory_ / file_)) return done();
  return Error{ErrorKind::Unsupported, "there is no cgroup v1 cpuset directory " + path_, 0};
}

Result<std::string> Cgroup1Cpuset::read() { return read_text(directory_ / file_); }

Status Cgroup1Cpuset::put_set(const fs::path& group, const CpuSet& set) {
  Status written = write_and_leave(group / file_, format_cpulist(set));
  return !written && gone(written.error()) ? done() : written;
}

// Every group must contain its children at every moment: first everybody grows to what it has and shall have, parents
// first, then everybody shrinks, children first. std::map sorts paths with parents before children.
Status Cgroup1Cpuset::set_tree(const std::map<fs::path, CpuSet>& wanted) {
  if (wanted.size() > 1) {
    for (const auto& [group, set] : wanted) {
      const auto text = read_text(group / file_);
      if (!text && gone(text.error())) continue;
      const auto now = text ? parse_cpulist(*text) : Result<CpuSet>(text.error());
      if (!now) return now.error();
      if (is_subset(set, *now)) continue;
      if (Status grown = put_set(group, unite(*now, set)); !grown) return grown;
    }
  }
  for (auto entry = wanted.rbegin(); entry != wanted.rend(); ++entry) {
    if (Status shrunk = put_set(entry->first, entry->second); !shrunk) return shrunk;
  }
  return done();
}

Status Cgroup1Cpuset::write(const std::string& value) {
  const auto set = parse_cpulist(value);
  if (!set) return set.error();
  const auto tree = cgroup_tree(directory_);
  if (!tree) return tree.error();
  std::map<fs::path, CpuSet> wanted;
  for (const fs::path& group : *tree) wanted[group] = *set;
  return set_tree(wanted);
}

bool Cgroup1Cpuset::same(const std::string& read, const std::string& wanted) const {
  return is_same_cpulist(read, wanted);
}

Result<std::string> Cgroup1Cpuset::lines_of(const char* file) {
  const auto tree = cgroup_tree(directory_);
  if (!tree) return tree.error();
  std::string lines;
  for (const fs::path& group : *tree) {
    const auto text = read_text(group / file);
    if (!text && gone(text.error())) continue;
    if (!text) return text.error();
    lines += (group == directory_ ? "." : fs::relative(group, directory_).string()) + "=" + *text + "\n";
  }
  return lines;
}

Result<std::map<fs::path, std::string>> Cgroup1Cpuset::groups_of(std::string_view lines) {
  std::map<fs::path, std::string> groups;
  for (const std::string_view line : split_lines(lines)) {
    const std::size_t equals = line.rfind('=');
    if (equals == std::string_view::npos) continue;
    const std::string below(line.substr(0, equals));
    if (!stays_below(below)) return Error{ErrorKind::Input, "journal: '" + below + "' is no path below the cgroup", 0};
    const fs::path group = below == "." ? directory_ : directory_ / below;
    const auto there = present(group / file_);
    if (!there) return there.error();
    if (*there) groups[group] = line.substr(equals + 1);
  }
  return groups;
}

Result<std::string> Cgroup1Cpuset::snapshot() { return lines_of(file_); }

Status Cgroup1Cpuset::restore(const std::string& snapshot) {
  if (!found_ || directory_.empty()) return found_;
  const auto groups = groups_of(snapshot);
  if (!groups) return groups.error();
  std::map<fs::path, CpuSet> wanted;
  for (const auto& [group, text] : *groups) {
    const auto set = parse_cpulist(text);
    if (!set) return set.error();
    wanted[group] = *set;
  }
  return set_tree(wanted);
}

}  // namespace osml
