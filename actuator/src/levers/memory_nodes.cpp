#include "levers/memory_nodes.h"

#include <unistd.h>

#include <algorithm>

#include "base/kept_file.h"
#include "base/number.h"
#include "cpu/members.h"

namespace osml {

namespace {

constexpr const char* migrate_file = "cpuset.memory_migrate";
constexpr std::string_view migrate_line = "\nmemory_migrate\n";  // no cgroup has a line break in its name

Status check_nodes(const std::string& value) {
  const auto nodes = parse_cpulist(value);
  if (nodes && !nodes->empty()) return done();
  return Error{ErrorKind::Input, "memory_nodes '" + value + "' is no list of NUMA nodes such as 0-1", 0};
}

Result<NodeSet> read_nodes(const fs::path& file) {
  const auto text = read_text(file);
  if (!text) return text.error();
  auto nodes = parse_cpulist(*text);
  if (nodes) return nodes;
  return Error{ErrorKind::Io, file.string() + " contains '" + *text + "', expected NUMA nodes such as 0-1", 0};
}

// "anon N0=4096 N1=0" (v2, bytes) or "hierarchical_total=3 N0=1 N1=2" (v1, pages): of the line that begins with `key`.
std::map<unsigned, std::uint64_t> numbers_by_node(std::string_view stat, std::string_view key) {
  std::map<unsigned, std::uint64_t> numbers;
  for (std::string_view line : split_lines(stat)) {
    if (!line.starts_with(key)) continue;
    for (std::size_t at = line.find(" N"); at != std::string_view::npos; at = line.find(" N")) {
      line.remove_prefix(at + 2);
      const std::size_t equals = std::min(line.find('='), line.size());
      const auto node = parse_unsigned(line.substr(0, equals));
      const auto number = leading_number(line.substr(std::min(equals + 1, line.size())));
      if (node && number) numbers[static_cast<unsigned>(*node)] = *number;
    }
  }
  return numbers;
}

// What the service works with, as memory.high counts it: without pages of files that nobody used lately.
std::map<unsigned, std::uint64_t> placed_bytes2(std::string_view stat) {
  auto placed = numbers_by_node(stat, "anon ");
  auto unused = numbers_by_node(stat, "inactive_file ");
  for (const auto& [node, bytes] : numbers_by_node(stat, "file "))
    placed[node] += bytes - std::min(bytes, unused[node]);
  return placed;
}

std::uint64_t bytes_of_pages(std::uint64_t pages) {
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::map<unsigned, std::uint64_t> placed_bytes1(std::string_view stat) {
  auto placed = numbers_by_node(stat, "hierarchical_total=");
  for (auto& [node, pages] : placed) pages = bytes_of_pages(pages);
  return placed;
}

// False: the controller of memory is off.
bool count_in_group(const fs::path& group, bool v2, MemoryUse& use) {
  if (const auto stat = read_text(group / "memory.numa_stat")) {
    use.placed = v2 ? placed_bytes2(*stat) : placed_bytes1(*stat);
  }
  if (!use.placed.empty()) return true;
  const auto all = read_number(group / (v2 ? "memory.current" : "memory.usage_in_bytes"));
  if (all) use.unplaced = *all;
  return static_cast<bool>(all);
}

// What its processes have. Pages that several of them share count several times, which errs on the safe side.
std::uint64_t resident_bytes(const Roots& roots, const Match& match) {
  const auto pids = member_pids(roots, match);
  if (!pids) return MemoryUse::uncounted;
  const auto tasks = pids->empty() ? member_tids(roots, match) : pids;  // a threaded group lists no processes
  bool counted = tasks && tasks->empty();
  std::uint64_t pages = 0;
  for (const pid_t pid : *pids) {
    const auto text = read_text(roots.proc / std::to_string(pid) / "statm");
    const auto numbers = text ? leading_numbers<2>(*text) : std::nullopt;  // whole size, and what is resident
    if (!numbers) continue;
    counted = true;
    pages += (*numbers)[1];
  }
  return counted ? bytes_of_pages(pages) : MemoryUse::uncounted;
}

}  // namespace

Status Cgroup2Mems::write(const std::string& value) {
  const Status good = check_nodes(value);
  return good ? put(value) : good;
}

Status Cgroup1Mems::write(const std::string& value) {
  if (Status good = check_nodes(value); !good) return good;
  const auto tree = cgroup_tree(directory());
  if (!tree) return tree.error();
  for (const fs::path& group : *tree) {
    const Status set = write_command(group / migrate_file, "1\n");
    if (!set && set.error().kind != ErrorKind::Gone) return set;
  }
  return Cgroup1Cpuset::write(value);
}

Result<std::string> Cgroup1Mems::snapshot() {
  const auto nodes = Cgroup1Cpuset::snapshot();
  if (!nodes) return nodes;
  const auto switches = lines_of(migrate_file);
  if (!switches) return switches;
  return std::string(trim(*nodes)) + std::string(migrate_line) + *switches;
}

// The pages move back before the switch is as it was.
Status Cgroup1Mems::restore(const std::string& snapshot) {
  if (directory().empty()) return Cgroup1Cpuset::restore(snapshot);  // gone, or nobody can tell
  const std::size_t at = snapshot.find(migrate_line);
  if (at == std::string::npos) {
    return Error{ErrorKind::Input, "the journal has '" + snapshot + "', expected nodes and then memory_migrate", 0};
  }
  if (Status back = Cgroup1Cpuset::restore(snapshot.substr(0, at)); !back) return back;
  const auto switches = groups_of(snapshot.substr(at + migrate_line.size()));
  if (!switches) return switches.error();
  for (const auto& [group, value] : *switches) {
    const Status set = write_command(group / migrate_file, value + "\n");
    if (!set && set.error().kind != ErrorKind::Gone) return set;
  }
  return done();
}

Result<MemoryUse> read_memory_use(const Roots& roots, const Match& match, std::string_view backend) {
  const bool v2 = backend == "cgroup2";
  const std::string path = match.cgroup.value_or("");
  const auto group = v2 ? find_cgroup2(roots, path) : find_cgroup1(roots, "cpuset", path);
  if (!group) return group.error();
  if (group->empty()) return Error{ErrorKind::Gone, "there is no cgroup " + path, 0};
  const auto allowed = read_nodes(group->parent_path() / (v2 ? "cpuset.mems.effective" : "cpuset.mems"));
  if (!allowed) return allowed.error();
  const auto own = read_nodes(*group / "cpuset.mems");
  if (!own) return own.error();
  return MemoryUse{*allowed, own->empty() ? *allowed : *own, own->empty(), {}, 0};
}

void count_memory(const Roots& roots, const Match& match, std::string_view backend, MemoryUse& use) {
  const bool v2 = backend == "cgroup2";
  const std::string path = match.cgroup.value_or("");
  const auto group = v2 ? find_cgroup2(roots, path) : find_cgroup1(roots, "memory", path);
  const bool counted = group && !group->empty() && count_in_group(*group, v2, use);
  if (!counted) use.unplaced = resident_bytes(roots, match);
}

}  // namespace osml
