#include "bandwidth/brake.h"

#include "cpu/members.h"

namespace osml {

Brake::Brake(const Roots& roots, const Match& match) {
  if (!match.cgroup) return;
  const fs::path directory = cgroup2_directory(roots, *match.cgroup);
  if (!directory.empty()) file_ = directory / "cgroup.freeze";
}

Status Brake::probe() const {
  if (file_.empty())
    return Error{ErrorKind::Unsupported, "the software regulator needs a service that is matched by a cgroup v2", 0};
  if (osml::exists(file_)) return done();
  return Error{ErrorKind::Unsupported,
               file_.string() + " does not exist; the software regulator needs this file to freeze the service", 0};
}

Status Brake::release() {
  if (file_.empty() || !osml::exists(file_)) return done();
  return set("0\n");
}

Status Brake::set(const char* text) const { return write_command(file_, text); }

}  // namespace osml
