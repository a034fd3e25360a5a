#include "cpu/affinity.h"

#include <sched.h>

#include <array>
#include <cerrno>

#include "cpu/threads.h"

namespace osml {

namespace {

using Words = std::array<unsigned long, 128>;  // 8192 CPUs

constexpr unsigned word_bits = 8 * sizeof(unsigned long);
constexpr unsigned max_cpus = 128 * word_bits;

Result<CpuSet> get_mask(pid_t tid) {
  Words words{};
  if (::sched_getaffinity(tid, sizeof words, reinterpret_cast<cpu_set_t*>(words.data())) != 0) {
    return errno_error(errno, "cannot read the affinity of thread " + std::to_string(tid));
  }
  CpuSet cpus;
  for (unsigned cpu = 0; cpu < max_cpus; ++cpu) {
    if ((words.at(cpu / word_bits) >> (cpu % word_bits) & 1U) != 0) cpus.push_back(cpu);
  }
  return cpus;
}

Status set_mask(pid_t tid, const CpuSet& cpus) {
  Words words{};
  for (const unsigned cpu : cpus) words.at(cpu / word_bits) |= 1UL << (cpu % word_bits);
  if (::sched_setaffinity(tid, sizeof words, reinterpret_cast<const cpu_set_t*>(words.data())) == 0) return done();
  const int code = errno;
  return refused_setting(code, "cannot bind thread " + std::to_string(tid) + " to CPUs " + format_cpulist(cpus));
}

bool has_mask(pid_t tid, const CpuSet& cpus) {
  const auto mask = get_mask(tid);
  return mask && *mask == cpus;
}

CpuSet any_cpu() {
  CpuSet cpus(max_cpus);
  for (unsigned cpu = 0; cpu < max_cpus; ++cpu) cpus[cpu] = cpu;
  return cpus;
}

}  // namespace

Status AffinityKnob::probe() {
  if (is_kernel_proc(roots_.proc)) return done();
  return Error{ErrorKind::Unsupported,
               roots_.proc.string() + " is not the /proc of this kernel: the agent cannot bind its tasks to CPUs", 0};
}

Result<std::string> AffinityKnob::read() {
  const auto tids = member_tids(roots_, match_);
  if (!tids) return tids.error();
  CpuSet all;
  for (const pid_t tid : *tids) {
    if (const auto mask = get_mask(tid)) all = unite(all, *mask);
  }
  return format_cpulist(all);
}

Status AffinityKnob::write(const std::string& value) {
  const auto cpus = parse_cpulist(value);
  if (!cpus) return cpus.error();
  return confine(*cpus, true);
}

Status AffinityKnob::reconcile(const std::string& value) {
  const auto cpus = parse_cpulist(value);
  if (!cpus) return cpus.error();
  return confine(*cpus, false);
}

Status AffinityKnob::confine(const CpuSet& cpus, bool exactly) {
  return change_threads(roots_, match_, "other CPUs than " + format_cpulist(cpus), [&](pid_t tid) -> Result<bool> {
    const auto mask = get_mask(tid);
    if (!mask || *mask == cpus || (!exactly && is_subset(*mask, cpus))) return false;  // has ended, or is right
    const Status set = set_mask(tid, cpus);
    if (!set && set.error().code == ESRCH) return true;
    if (!set) return set.error();
    const auto kept = get_mask(tid);
    // Another program's change is tried again.
    if (!kept || *kept == cpus || !exactly || !is_subset(*kept, cpus)) return true;
    return Error{ErrorKind::Io,
                 "thread " + std::to_string(tid) + ": the agent set CPUs " + format_cpulist(cpus) +
                     ", but the kernel allows only " + format_cpulist(*kept) +
                     ", by its cgroup or since the others are offline; give the cgroup these CPUs, or remove them from "
                     "cpu.cpus",
                 0};
  });
}

bool AffinityKnob::same(const std::string& read, const std::string& wanted) const {
  const auto a = parse_cpulist(read);
  const auto b = parse_cpulist(wanted);
  return a && b && (a->empty() || *a == *b);
}

Result<std::string> AffinityKnob::snapshot() {
  const auto tids = member_tids(roots_, match_);
  if (!tids) return tids.error();
  std::string text;
  for (const pid_t tid : *tids) {
    if (const auto mask = get_mask(tid)) text += ThreadRecords::line(roots_.proc, tid, format_cpulist(*mask));
  }
  return text;
}

Status AffinityKnob::restore(const std::string& snapshot) {
  if (Status usable = probe(); !usable) return usable;  // threads that nobody can see have not gone
  const ThreadRecords records(roots_.proc, snapshot);
  auto members = records.members(roots_, match_);
  if (!members) return members.error();
  Status first = done();  // one thread's trouble is not the others'
  for (const pid_t tid : records.with_recorded(std::move(*members))) {
    const std::string* known = records.find(tid);
    if (known == nullptr) known = records.find(process_of(roots_.proc, tid));
    if (known == nullptr) known = records.common();  // born since: as all were found
    const auto cpus = known == nullptr ? Result<CpuSet>(any_cpu()) : parse_cpulist(*known);
    Status set = cpus ? set_mask(tid, *cpus) : Status(cpus.error());
    if (!set && set.error().kind == ErrorKind::Permission && has_mask(tid, *cpus)) set = done();  // nothing to restore
    if (first && !set && set.error().code != ESRCH) first = set;
  }
  return first;
}

}  // namespace osml
