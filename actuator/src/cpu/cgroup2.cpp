#include "cpu/cgroup2.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/cpuset.h"
#include "base/number.h"
#include "cpu/leaving_write.h"
#include "cpu/members.h"
#include "cpu/quota.h"

namespace osml {

namespace {

using Clock = std::chrono::steady_clock;

// The kernel answers at once; a tree that user space serves takes some milliseconds.
constexpr auto effective_patience = std::chrono::milliseconds(300);
constexpr unsigned last_cpu = 8191;  // systemd takes CPUs that do not exist
constexpr auto effective_pause = std::chrono::milliseconds(2);

Status await_effective(const fs::path& directory, const std::string& wanted) {
  const auto deadline = Clock::now() + effective_patience;
  while (true) {
    const auto effective = read_text(directory / "cpuset.cpus.effective");
    if (!effective) return done();  // trees without the file have nothing to say
    if (is_same_cpulist(*effective, wanted)) return done();
    if (Clock::now() >= deadline) {
      return Error{ErrorKind::Io,
                   directory.string() + ": the agent set CPUs " + wanted + ", but the kernel allows " +
                       (effective->empty() ? "none" : *effective) +
                       "; give the parent cgroup these CPUs, or remove them from cpu.cpus",
                   0};
    }
    std::this_thread::sleep_for(effective_pause);
  }
}

}  // namespace

Cgroup2Knob::Cgroup2Knob(const Roots& roots, const Match& match, std::string file, std::string controller)
    : root_(roots.cgroup),
      path_(match.cgroup.value_or("")),
      file_(std::move(file)),
      controller_(std::move(controller)) {
  if (!match.cgroup) return;
  const auto directory = find_cgroup2(roots, *match.cgroup);
  if (directory) directory_ = *directory;
  if (!directory) found_ = directory.error();
}

Status Cgroup2Knob::probe() {
  if (path_.empty()) return Error{ErrorKind::Unsupported, "matched by process ids, not by a cgroup", 0};
  if (!found_) return found_;
  if (directory_.empty()) return Error{ErrorKind::Unsupported, "there is no cgroup v2 directory " + path_, 0};
  if (osml::exists(file())) return done();
  return Error{ErrorKind::Unsupported, file().string() + " does not exist; run: " + how_to_enable(), 0};
}

// systemd takes away what it was not asked for, so that of its units the property is what lasts.
std::string Cgroup2Knob::how_to_enable() const {
  const std::string unit = directory_.filename().string();
  const std::string kind = fs::path(unit).extension().string();
  if (kind != ".service" && kind != ".scope" && kind != ".slice") {
    return "echo +" + controller_ + " > " + (directory_.parent_path() / "cgroup.subtree_control").string();
  }
  if (controller_ == "memory") return "systemctl set-property " + unit + " MemoryAccounting=yes";
  if (controller_ == "io") return "systemctl set-property " + unit + " IOAccounting=yes";
  if (controller_ != "cpuset") return "systemctl set-property " + unit + " CPUWeight=100";
  const auto all = read_text(root_ / "cpuset.cpus.effective");
  return "systemctl set-property " + unit +
         " AllowedCPUs=" + (all && !all->empty() ? *all : "0-" + std::to_string(last_cpu));
}

Status Cgroup2Knob::put(const std::string& text) { return write_command(file(), text + "\n"); }

Result<std::string> Cgroup2Knob::snapshot() { return read_text(file()); }

Status Cgroup2Knob::restore(const std::string& snapshot) {
  if (!found_ || directory_.empty()) return found_;
  if (Status written = put(snapshot); !written) return written;
  const auto now = read_text(file());
  if (!now) return now.error();
  if (*now == snapshot) return done();
  return Error{ErrorKind::Io,
               file().string() + ": the agent restored '" + snapshot + "', but the kernel reports '" + *now + "'", 0};
}

Result<std::string> Cgroup2Cpuset::read() { return read_text(file()); }

// A cgroup above may have fewer CPUs by now. CPUs that are offline are no such case.
Result<std::string> Cgroup2Cpuset::in_force() {
  auto text = read_text(file());
  if (!text || text->empty()) return text;
  const auto effective = read_text(directory() / "cpuset.cpus.effective");
  const auto online = read_text(root() / "cpuset.cpus.effective");
  const auto set = parse_cpulist(*text);
  const auto all = online ? parse_cpulist(*online) : Result<CpuSet>(online.error());
  if (!effective || effective->empty() || !set || !all) return text;
  return is_same_cpulist(*effective, format_cpulist(intersect(*set, *all))) ? text : effective;
}

Status Cgroup2Cpuset::put(const std::string& text) { return write_and_leave(file(), text); }

Status Cgroup2Cpuset::write(const std::string& value) {
  if (Status written = put(value); !written) return written;
  return await_effective(directory(), value);
}

bool Cgroup2Cpuset::same(const std::string& read, const std::string& wanted) const {
  return is_same_cpulist(read, wanted);
}

Status Cgroup2Cpuset::restore(const std::string& snapshot) {
  if (!snapshot.empty()) return Cgroup2Knob::restore(snapshot);
  Status emptied = Cgroup2Knob::restore(snapshot);
  if (emptied || emptied.error().code != ENOSPC) return emptied;
  const auto parent = read_text(directory().parent_path() / (file().filename().string() + ".effective"));
  if (!parent) return emptied;
  return Cgroup2Knob::restore(*parent);
}

Result<std::string> Cgroup2Quota::read() {
  const auto text = read_text(file());
  if (!text) return text.error();
  const auto quota = parse_cpu_max(*text);
  if (!quota) return Error{ErrorKind::Io, file().string() + " contains '" + *text + "', expected QUOTA PERIOD", 0};
  const auto cpus = quota->cpus();
  return cpus ? format_number(*cpus) : std::string();
}

Status Cgroup2Quota::write(const std::string& value) {
  const auto cpus = parse_double(value);
  if (!cpus || *cpus <= 0) return Error{ErrorKind::Input, "cpu_quota '" + value + "' is not a positive number", 0};
  return write_command(file(), format_cpu_max(quota_for(*cpus)) + "\n");
}

bool Cgroup2Quota::same(const std::string& read, const std::string& wanted) const { return same_quota(read, wanted); }

Result<std::string> Cgroup2Weight::read() { return read_text(file()); }

Status Cgroup2Weight::write(const std::string& value) { return write_command(file(), value + "\n"); }

}  // namespace osml
