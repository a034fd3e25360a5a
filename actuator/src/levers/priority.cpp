#include "levers/priority.h"

#include <sched.h>
#include <sys/resource.h>

#include <cerrno>
#include <set>
#include <sstream>
#include <thread>

#include "cpu/threads.h"

namespace osml {

namespace {

constexpr int deadline_policy = 6;  // SCHED_DEADLINE, which glibc does not name

struct Scheduling {
  int policy = SCHED_OTHER;  // with SCHED_RESET_ON_FORK, where that is set
  int priority = 0;
  int nice = 0;

  [[nodiscard]] int plain_policy() const { return policy & ~SCHED_RESET_ON_FORK; }
  bool operator==(const Scheduling&) const = default;
};

// None where the thread has gone.
Result<std::optional<Scheduling>> scheduling_of(pid_t tid) {
  Scheduling found;
  sched_param param{};
  found.policy = ::sched_getscheduler(tid);
  if (found.policy < 0 || ::sched_getparam(tid, &param) != 0) {
    if (errno == ESRCH) return std::optional<Scheduling>();
    return errno_error(errno, "cannot read the scheduling policy of thread " + std::to_string(tid));
  }
  found.priority = param.sched_priority;
  errno = 0;
  found.nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(tid));
  if (errno == ESRCH) return std::optional<Scheduling>();
  if (errno != 0) return errno_error(errno, "cannot read the nice value of thread " + std::to_string(tid));
  return std::optional(found);
}

Status set_policy(pid_t tid, int policy, int priority) {
  sched_param param{};
  param.sched_priority = priority;
  if (::sched_setscheduler(tid, policy, &param) == 0 || errno == ESRCH) return done();
  return errno_error(errno, "cannot set the scheduling policy of thread " + std::to_string(tid));
}

Status reset(pid_t tid, const Scheduling& wanted) {
  const auto now = scheduling_of(tid);
  if (!now) return now.error();
  if (!*now || **now == wanted || wanted.plain_policy() == deadline_policy) return done();
  if (Status set = set_policy(tid, wanted.policy, wanted.priority); !set) return set;
  if ((*now)->nice == wanted.nice) return done();
  if (::setpriority(PRIO_PROCESS, static_cast<id_t>(tid), wanted.nice) == 0 || errno == ESRCH) return done();
  return errno_error(errno, "cannot set the nice value of thread " + std::to_string(tid));
}

// None where a snapshot holds something else.
std::optional<Scheduling> parse_scheduling(const std::string* text) {
  if (text == nullptr) return std::nullopt;
  std::istringstream fields(*text);
  Scheduling was;
  if (!(fields >> was.policy >> was.priority >> was.nice)) return std::nullopt;
  return was;
}

// A thread of the agent tries, once: seccomp filters and budgets of the agent's own group are seen by nothing else.
int error_of_trial() {
  static const int error = [] {
    int code = 0;
    std::thread([&code] {
      sched_param param{};
      param.sched_priority = 1;
      if (::sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &param) != 0) code = errno;
    }).join();
    return code;
  }();
  return error;
}

Status unsupported(const std::string& why) { return Error{ErrorKind::Unsupported, why, 0}; }

}  // namespace

std::optional<double> round_robin_slice_ms(const Roots& roots) {
  const auto slice = read_number(roots.proc / "sys" / "kernel" / "sched_rr_timeslice_ms");
  return slice ? std::optional(static_cast<double>(*slice)) : std::nullopt;
}

Status PriorityKnob::probe() {
  if (!is_kernel_proc(roots_.proc)) {
    return unsupported(roots_.proc.string() + " is not the /proc of this kernel: the agent cannot schedule its tasks");
  }
  if (!may_set_others()) return unsupported("the agent does not have CAP_SYS_NICE; run: it with this capability");
  const auto budget = read_text(roots_.proc / "sys" / "kernel" / "sched_rt_runtime_us");
  if (budget && *budget == "-1") {
    return unsupported(
        "kernel.sched_rt_runtime_us is -1, so a service that never sleeps would stop the machine; "
        "run: sysctl -w kernel.sched_rt_runtime_us=950000");
  }
  if (match_.cgroup) {
    const fs::path group = cgroup1_directory(roots_, "cpu", *match_.cgroup);
    const auto own = group.empty() ? Result<std::string>(std::string()) : read_text(group / "cpu.rt_runtime_us");
    if (own && *own == "0") {
      return unsupported("the group " + group.string() + " has no real-time budget; run: echo 10000 > " +
                         (group / "cpu.rt_runtime_us").string());
    }
  }
  if (const int code = error_of_trial(); code != 0) {
    return unsupported(errno_error(code, "the kernel refuses SCHED_RR to the agent").message +
                       "; run: the agent without RestrictRealtime= and similar filters");
  }
  return done();
}

Result<std::string> PriorityKnob::read() {
  const auto tids = member_tids(roots_, match_);
  if (!tids) return tids.error();
  std::set<std::string> found;
  for (const pid_t tid : *tids) {
    const auto now = scheduling_of(tid);
    if (!now) return now.error();
    if (!*now || (*now)->plain_policy() == deadline_policy) continue;
    found.insert((*now)->plain_policy() == SCHED_RR ? std::to_string((*now)->priority) : "-");
  }
  if (found.empty()) return std::string("none");
  if (found == std::set<std::string>{"-"}) return std::string();
  std::string text;
  for (const std::string& one : found) text += (text.empty() ? "" : ",") + one;
  return text;
}

Status PriorityKnob::write(const std::string& value) {
  const auto priority = parse_unsigned(value);
  if (!priority || *priority == 0 || *priority >= least_kernel_priority) {
    return Error{ErrorKind::Input,
                 "realtime_priority '" + value + "' is not a whole number from 1 to " +
                     std::to_string(least_kernel_priority - 1),
                 0};
  }
  return change_threads(roots_, match_, "another priority than " + value, [&](pid_t tid) -> Result<bool> {
    const auto now = scheduling_of(tid);
    if (!now) return now.error();
    if (!*now || (*now)->plain_policy() == deadline_policy) return false;
    if ((*now)->plain_policy() == SCHED_RR && (*now)->priority == static_cast<int>(*priority)) return false;
    const int on_fork = (*now)->policy & SCHED_RESET_ON_FORK;
    if (Status set = set_policy(tid, SCHED_RR | on_fork, static_cast<int>(*priority)); !set) return set.error();
    return true;
  });
}

Result<std::string> PriorityKnob::snapshot() {
  const auto tids = member_tids(roots_, match_);
  if (!tids) return tids.error();
  std::string text;
  for (const pid_t tid : *tids) {
    const auto now = scheduling_of(tid);
    if (!now) return now.error();
    if (!*now) continue;
    const Scheduling& is = **now;
    text += ThreadRecords::line(
        roots_.proc, tid,
        std::to_string(is.policy) + " " + std::to_string(is.priority) + " " + std::to_string(is.nice));
  }
  return text;
}

Status PriorityKnob::restore(const std::string& snapshot) {
  if (!is_kernel_proc(roots_.proc)) return probe();
  const ThreadRecords records(roots_.proc, snapshot);
  auto members = records.members(roots_, match_);
  if (!members) return members.error();
  Status first = done();  // one thread's trouble is not the others'
  for (const pid_t tid : records.with_recorded(std::move(*members))) {
    std::optional<Scheduling> wanted = parse_scheduling(records.find(tid));
    if (!wanted) {
      const auto now = scheduling_of(tid);
      if (first && !now) first = now.error();
      // Born since: what is real-time in it came from its creator, or from the agent. The rest is its own.
      if (!now || !*now || (*now)->plain_policy() != SCHED_RR) continue;
      wanted = parse_scheduling(records.find(process_of(roots_.proc, tid))).value_or(Scheduling{});
      wanted->nice = (*now)->nice;
    }
    const Status back = reset(tid, *wanted);
    if (first && !back) first = back;
  }
  return first;
}

}  // namespace osml
