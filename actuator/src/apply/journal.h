// What a crash must not take with it: the state found before the first change, and the transaction in flight. A file
// of our own in state_dir, replaced atomically and synced before the machine is touched.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "node/knobs.h"

namespace osml {

// One knob and what to put back there (Knob::snapshot).
struct Saved {
  KnobName name;
  std::string snapshot;
};

struct Journal {
  std::vector<Saved> originals;  // as found, in the order of first touch; what restore() returns to
  std::vector<Saved> pending;    // the transaction in flight, in the order of its steps; empty between transactions

  [[nodiscard]] bool knows(const std::string& service, Aspect aspect) const;
};

// An empty journal where the file does not exist. Input where it exists and cannot be understood.
Result<Journal> load_journal(const fs::path& path);
Status save_journal(const fs::path& path, const Journal& journal);

}  // namespace osml
