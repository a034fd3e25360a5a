// What a crash must not take with it: the state found before the first change, the transaction in flight, and what the
// last decision set. A file of our own in state_dir, replaced atomically and synced before the machine is touched.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "node/knobs.h"
#include "plan/wanted.h"

namespace osml {

// One knob and what to put back there (Knob::snapshot).
struct Saved {
  KnobName name;
  std::string snapshot;
};

// What the last decision set for a service, and on whom: a cgroup that comes later has nothing of it yet.
struct Applied {
  std::string service;
  Match match;
  bool there = true;  // the service's cgroup existed
  std::optional<std::uint64_t> cgroup_inode;
  Wanted values;
  bool job = false;  // of class be

  bool operator==(const Applied&) const = default;
};

struct Journal {
  std::vector<Saved> originals;  // as found, in the order of first touch, groups first; what restore() returns to
  std::vector<Saved> pending;    // the transaction in flight, in the order of its steps; empty between transactions
  std::vector<Applied> applied;  // empty before the first decision and after a restore
  std::string boot_id;           // of the kernel that has all this; empty where it has none
  // For a restore without a configuration: where the kernel's files are, and what on_exit says.
  std::optional<Roots> roots = {};
  bool leave = false;

  [[nodiscard]] const Saved* find(const KnobName& name) const;
  [[nodiscard]] const Applied* applied_to(const std::string& service) const;
};

// An empty journal where the file does not exist. Input where it exists and cannot be understood.
Result<Journal> load_journal(const fs::path& path);
Status save_journal(const fs::path& path, const Journal& journal);

}  // namespace osml
