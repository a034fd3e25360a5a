// One thing that can be set on this machine: the CPU set of a service, its quota, its way mask... or the clock of a
// domain of CPUs, or the CPUs of an interrupt. Every mechanism implements this contract, so that planning, journal,
// read-back, undo and restore are written once for all of them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace osml {

// What a knob sets; also the order in which the knobs of a service are first touched, and the reverse of the order in
// which they are restored: a group exists before it has masks, and has masks before tasks move in.
enum class Aspect { Group, Ways, Mba, Tasks, Cpus, Quota, Weight, Memory, Disk, Priority, Clock, Nodes };
inline constexpr std::array aspects = {Aspect::Group, Aspect::Ways,     Aspect::Mba,    Aspect::Tasks,
                                       Aspect::Cpus,  Aspect::Quota,    Aspect::Weight, Aspect::Memory,
                                       Aspect::Disk,  Aspect::Priority, Aspect::Clock,  Aspect::Nodes};

// "group", "way_mask", "mba", "tasks", "cpus", "cpu_quota", "cpu_weight", "memory_mib", "disk_iops",
// "realtime_priority", "frequency_mhz", "memory_nodes".
std::string_view name_of(Aspect aspect);

class Knob {
 public:
  Knob() = default;
  Knob(const Knob&) = delete;
  Knob& operator=(const Knob&) = delete;
  virtual ~Knob() = default;

  [[nodiscard]] virtual Aspect aspect() const = 0;
  // Which backend this is ("cgroup2", "cgroup1", "affinity", "resctrl"): with aspect and service it names the knob in
  // the journal, so that a later run of the agent can build it again.
  [[nodiscard]] virtual std::string_view backend() const = 0;

  // Done = usable now. The error says in one sentence what is missing.
  virtual Status probe() = 0;

  // The present value in the decision's terms ("0-3", "1.5", "ff"); empty = not set, it inherits or does not exist.
  virtual Result<std::string> read() = 0;
  // What of it the kernel has in force at the moment: others may narrow it.
  virtual Result<std::string> in_force() { return read(); }
  // Before anything is touched: the error says in one sentence why the present state of the service forbids the value.
  virtual Status allows(const std::string& value);
  // Sets the value. Done = the kernel took the command; the caller compares read() by accepts().
  virtual Status write(const std::string& value) = 0;
  // Whether what was read means what was wanted (padding, rounding, order of CPUs do not matter).
  [[nodiscard]] virtual bool same(const std::string& read, const std::string& wanted) const = 0;
  // Whether the kernel did with a value what it can at the moment, when it was just written.
  [[nodiscard]] virtual bool accepts(const std::string& read, const std::string& wanted) const {
    return same(read, wanted);
  }

  // Why the kernel refused the last write() though that said Done: it was no fault of what was wanted, and the value
  // stays as it was. None where the kernel took it.
  [[nodiscard]] virtual std::optional<Error> refused() const { return std::nullopt; }

  // Everything needed to put back what is there now; opaque to everybody else, kept in the journal. Text, UTF-8.
  virtual Result<std::string> snapshot() = 0;
  // The snapshot that restore() at the very end goes back to. Differs only for what carries our name and is ours
  // whoever left it there.
  virtual Result<std::string> origin() { return snapshot(); }
  // Puts a snapshot back and checks it. Idempotent. What has gone meanwhile (task, cgroup, group) is no error.
  virtual Status restore(const std::string& snapshot) = 0;

  // Once per tick for a value set before: tasks born meanwhile follow. Most knobs have nothing to do.
  virtual Status reconcile(const std::string& value);
};

}  // namespace osml
