// The audit log: what was done to the machine, written after it was done, with the words of whoever decided it.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "domain/types.h"
#include "report/json_lines.h"

namespace osml {

class Audit {
 public:
  explicit Audit(const fs::path& state_dir);

  // One line {"time","node_time_s","seq","policy","status","message","duration_ms","absent","changes",
  // "reasons"}; changes are what differs between `before` and `after`, as read back; `absent` are services that are not
  // there. A run of outcomes `unchanged`, or of one
  // refusal, is one line, its first.
  Status record(double node_time_s, const Decision& decision, const Outcome& outcome,
                const std::vector<Assignment>& before, const std::vector<Assignment>& after,
                const std::vector<std::string>& absent = {});

 private:
  JsonLines file_;
  std::string nothing_;  // the last line, where it says that nothing was done
};

// "moses cpus 0-3 -> 0-5", one per field that differs.
std::vector<std::string> changes_in_words(const std::vector<Assignment>& before, const std::vector<Assignment>& after);

}  // namespace osml
