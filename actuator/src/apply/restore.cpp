#include "apply/restore.h"

#include <algorithm>

namespace osml {

Status restore_all(std::vector<Saved>& saved, const Roots& roots, const std::optional<resctrl::Info>& info) {
  std::vector<Saved> left;
  std::string problems;
  ErrorKind kind = ErrorKind::Io;
  for (auto entry = saved.rbegin(); entry != saved.rend(); ++entry) {
    const auto knob = make_knob(entry->name, roots, info);
    if (!knob) continue;  // written by another version of the agent; nothing here knows what it is
    const Status back = knob->restore(entry->snapshot);
    if (back) continue;
    kind = back.error().kind;
    problems += (problems.empty() ? "" : "; ") + entry->name.service + ": " + std::string(name_of(entry->name.aspect)) +
                ": " + back.error().message;
    left.push_back(*entry);
  }
  // Threads whose group came back only behind their own turn.
  for (const Saved& entry : saved) {
    const auto knob = entry.name.aspect == Aspect::Tasks ? make_knob(entry.name, roots, info) : nullptr;
    if (knob) (void)knob->restore(entry.snapshot);
  }
  std::reverse(left.begin(), left.end());
  saved = std::move(left);
  return problems.empty() ? done() : Status(Error{kind, "could not restore " + problems, 0});
}

}  // namespace osml
