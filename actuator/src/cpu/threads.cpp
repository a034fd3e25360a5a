#include "cpu/threads.h"

#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/number.h"

namespace osml {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto patience = std::chrono::seconds(1);

}  // namespace

bool is_kernel_proc(const fs::path& proc) {
  struct statfs facts {};
  return ::statfs(proc.c_str(), &facts) == 0 && facts.f_type == PROC_SUPER_MAGIC;
}

Status change_threads(const Roots& roots, const Match& match, const std::string& what,
                      const std::function<Result<bool>(pid_t)>& change) {
  const auto deadline = Clock::now() + patience;
  while (true) {
    const auto tids = member_tids(roots, match);
    if (!tids) return tids.error();
    std::size_t changed = 0;
    for (const pid_t tid : *tids) {
      const auto had_to = change(tid);
      if (!had_to) return had_to.error();
      if (*had_to) ++changed;
    }
    if (changed == 0) return done();
    if (Clock::now() >= deadline) {
      return Error{ErrorKind::Busy,
                   std::to_string(changed) + " threads still have " + what +
                       " after 1 s; the agent tries again in the next interval",
                   0};
    }
  }
}

bool may_set_others() {
  constexpr unsigned sys_nice = 23;  // CAP_SYS_NICE
  const auto status = read_text("/proc/self/status");
  if (!status) return false;
  for (const std::string_view line : split_lines(*status)) {
    if (!line.starts_with("CapEff:")) continue;
    const auto capabilities = parse_unsigned(trim(line.substr(7)), 16);
    return capabilities && (*capabilities >> sys_nice & 1U) != 0;
  }
  return false;
}

Error refused_setting(int code, const std::string& what) {
  Error error = errno_error(code, what);
  if (error.kind == ErrorKind::Permission && ::geteuid() != 0) error.message += "; run the agent as root";
  return error;
}

ThreadRecords::ThreadRecords(fs::path proc, std::string_view snapshot) : proc_(std::move(proc)) {
  for (const std::string_view line : split_lines(snapshot)) {
    const std::size_t first = line.find(' ');
    const std::size_t second = line.find(' ', first == std::string_view::npos ? first : first + 1);
    const auto tid = parse_unsigned(line.substr(0, first));
    if (!tid || second == std::string_view::npos) continue;
    records_[static_cast<pid_t>(*tid)] = {std::string(line.substr(first + 1, second - first - 1)),
                                          std::string(line.substr(second + 1))};
  }
}

std::string ThreadRecords::line(const fs::path& proc, pid_t tid, const std::string& value) {
  const std::string start = thread_start_time(proc, tid);
  return start.empty() ? std::string() : std::to_string(tid) + " " + start + " " + value + "\n";
}

const std::string* ThreadRecords::find(pid_t tid) const {
  const auto found = records_.find(tid);
  const bool same = found != records_.end() && found->second.start_time == thread_start_time(proc_, tid);
  return same ? &found->second.value : nullptr;
}

Result<std::vector<pid_t>> ThreadRecords::members(const Roots& roots, Match match) const {
  if (match.pids.empty()) return member_tids(roots, match);
  // With a record of another start time: a stranger has the id now.
  std::erase_if(match.pids, [this](int pid) { return records_.contains(pid) && find(pid) == nullptr; });
  return match.pids.empty() ? Result<std::vector<pid_t>>(std::vector<pid_t>()) : member_tids(roots, match);
}

const std::string* ThreadRecords::common() const {
  if (records_.empty()) return nullptr;
  const std::string& first = records_.begin()->second.value;
  const bool same =
      std::all_of(records_.begin(), records_.end(), [&](const auto& record) { return record.second.value == first; });
  return same ? &first : nullptr;
}

std::vector<pid_t> ThreadRecords::with_recorded(std::vector<pid_t> tids) const {
  for (const auto& [tid, record] : records_) {
    if (find(tid) != nullptr) tids.push_back(tid);
  }
  std::sort(tids.begin(), tids.end());
  tids.erase(std::unique(tids.begin(), tids.end()), tids.end());
  return tids;
}

}  // namespace osml
