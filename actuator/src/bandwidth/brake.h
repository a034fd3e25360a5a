// Lets the tasks of a service stand still and go on: cgroup.freeze of its cgroup v2. Whom the agent froze is noted in a
// small file beside the budgets (roots.budgets), so that an agent after a killed one lets go on only those.
#pragma once

#include "base/files.h"
#include "config/config.h"

namespace osml {

class Brake {
 public:
  Brake(const Roots& roots, const std::string& service, const Match& match);

  // Done = it can be used; the error says what is missing.
  [[nodiscard]] Status probe() const;
  // False: somebody else froze the group, which therefore is not ours to let go on.
  Result<bool> engage();
  // A group that has gone is no error. One that the agent did not freeze stays as it is.
  Status release();

 private:
  [[nodiscard]] bool is_ours() const;

  fs::path file_;  // empty where there is no cgroup v2
  fs::path mark_;  // contains the path of `file_` while the agent has it frozen
};

}  // namespace osml
