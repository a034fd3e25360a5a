#include "apply/restore.h"

#include <algorithm>

#include "cpu/members.h"

namespace osml {

namespace {

// A tree that is not mounted here has lost nothing.
Status cgroups_mounted(const Roots& roots) {
  const auto names = list_directory(roots.cgroup);
  if (names && !names->empty()) return done();
  return Error{ErrorKind::Io, "no cgroups are mounted at " + roots.cgroup.string() + "; mount them and restore again",
               0};
}

// The knob of an entry; none where its cgroup has gone, and with it everything that was set there.
Result<std::unique_ptr<Knob>> knob_of(KnobName name, const Roots& roots, const Result<resctrl::Info>& info) {
  const bool in_resctrl = name.backend == "resctrl";
  if (in_resctrl && !info) return info.error();
  if (name.match.cgroup && (!in_resctrl || name.aspect == Aspect::Tasks)) {
    if (Status mounted = cgroups_mounted(roots); !mounted) return mounted.error();
    const auto inode = cgroup_inode(roots, *name.match.cgroup);
    if (!inode) return inode.error();
    const bool another = name.cgroup_inode && *inode != name.cgroup_inode;
    if (another && name.backend.starts_with("cgroup")) return std::unique_ptr<Knob>();
    if (another) name.match = Match{};  // of the threads only those that the snapshot knows
  }
  auto knob = make_knob(name, roots, info ? std::optional(*info) : std::nullopt);
  if (knob) return knob;
  return Error{ErrorKind::Input,
               "another version of the agent set this (" + name.backend + "); restore with that version", 0};
}

Status restore_one(const Saved& entry, const Roots& roots, const Result<resctrl::Info>& info) {
  const auto knob = knob_of(entry.name, roots, info);
  if (!knob) return knob.error();
  return *knob ? put_back(**knob, entry.snapshot) : done();
}

}  // namespace

Status put_back(Knob& knob, const std::string& snapshot) {
  Status back = knob.restore(snapshot);
  return back || back.error().kind == ErrorKind::Gone ? done() : back;
}

Status restore_all(std::vector<Saved>& saved, const Roots& roots, const Result<resctrl::Info>& info) {
  std::vector<Saved> left;
  std::string problems;
  ErrorKind kind = ErrorKind::Io;
  for (auto entry = saved.rbegin(); entry != saved.rend(); ++entry) {
    const Status back = restore_one(*entry, roots, info);
    if (back) continue;
    kind = back.error().kind;
    problems += (problems.empty() ? "" : "; ") + entry->name.service + ": " + std::string(name_of(entry->name.aspect)) +
                ": " + back.error().message;
    left.push_back(*entry);
  }
  // Threads whose group came back only behind their own turn.
  for (const Saved& entry : saved) {
    if (entry.name.aspect == Aspect::Tasks) (void)restore_one(entry, roots, info);
  }
  std::reverse(left.begin(), left.end());
  saved = std::move(left);
  return problems.empty() ? done() : Status(Error{kind, "could not restore " + problems, 0});
}

}  // namespace osml
