#include "bandwidth/brake.h"

#include <fcntl.h>
#include <unistd.h>

#include "cpu/members.h"

namespace osml {

namespace {

// Not synced to the disk, since this is done many times a second: a reboot thaws all groups anyway.
Status write_mark(const fs::path& mark, const std::string& text) {
  std::error_code ignored;  // the open says it
  fs::create_directories(mark.parent_path(), ignored);
  const Fd fd(::open(mark.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) return errno_error(errno, "cannot open " + mark.string());
  const ssize_t written = ::write(fd.get(), text.data(), text.size());
  if (written < 0) return errno_error(errno, "cannot write " + mark.string());
  if (static_cast<std::size_t>(written) == text.size()) return done();
  return Error{ErrorKind::Capacity, "cannot write the whole of " + mark.string() + "; make room on the disk", ENOSPC};
}

}  // namespace

Brake::Brake(const Roots& roots, const std::string& service, const Match& match) {
  if (!match.cgroup) return;
  const fs::path directory = cgroup2_directory(roots, *match.cgroup);
  if (!directory.empty()) file_ = directory / "cgroup.freeze";
  if (!roots.budgets.empty()) mark_ = roots.budgets.parent_path() / "frozen" / service;
}

Status Brake::probe() const {
  if (file_.empty())
    return Error{ErrorKind::Unsupported, "the software regulator needs a service that is matched by a cgroup v2", 0};
  if (osml::exists(file_)) return done();
  return Error{ErrorKind::Unsupported,
               file_.string() + " does not exist; the software regulator needs this file to freeze the service", 0};
}

bool Brake::is_ours() const {
  const auto text = read_text(mark_);
  return text && *text == file_.string();
}

Result<bool> Brake::engage() {
  if (Status usable = probe(); !usable) return usable.error();
  const auto now = read_text(file_);
  if (!now) return now.error();
  if (*now == "1" && !is_ours()) return false;
  if (Status noted = write_mark(mark_, file_.string()); !noted) return noted.error();
  if (Status written = write_command(file_, "1\n"); !written) {
    // What somebody else freezes later must not be taken for ours; what stands still by us is.
    if (*now != "1") ::unlink(mark_.c_str());
    return written.error();
  }
  return true;
}

Status Brake::release() {
  if (file_.empty() || !is_ours()) return done();
  const Status thawed = osml::exists(file_) ? write_command(file_, "0\n") : done();
  if (thawed) ::unlink(mark_.c_str());
  return thawed;
}

}  // namespace osml
