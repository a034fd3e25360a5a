#include "cpu/affinity.h"

#include <linux/magic.h>
#include <sched.h>
#include <sys/statfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <optional>

#include "base/number.h"
#include "cpu/members.h"

namespace osml {

namespace {

using Clock = std::chrono::steady_clock;
using Words = std::array<unsigned long, 128>;  // 8192 CPUs

constexpr auto patience = std::chrono::seconds(1);
constexpr unsigned word_bits = 8 * sizeof(unsigned long);
constexpr unsigned max_cpus = 128 * word_bits;

struct Record {
  std::string start_time;
  std::string cpus;
};

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
  return errno_error(code, "cannot bind thread " + std::to_string(tid) + " to CPUs " + format_cpulist(cpus));
}

CpuSet any_cpu() {
  CpuSet cpus(max_cpus);
  for (unsigned cpu = 0; cpu < max_cpus; ++cpu) cpus[cpu] = cpu;
  return cpus;
}

std::map<pid_t, Record> parse_records(std::string_view text) {
  std::map<pid_t, Record> records;
  for (const std::string_view line : split_lines(text)) {
    const std::size_t first = line.find(' ');
    const std::size_t second = line.find(' ', first == std::string_view::npos ? first : first + 1);
    const auto tid = parse_unsigned(line.substr(0, first));
    if (!tid || second == std::string_view::npos) continue;
    records[static_cast<pid_t>(*tid)] = {std::string(line.substr(first + 1, second - first - 1)),
                                         std::string(line.substr(second + 1))};
  }
  return records;
}

}  // namespace

Status AffinityKnob::probe() {
  struct statfs facts {};
  if (::statfs(roots_.proc.c_str(), &facts) == 0 && facts.f_type == PROC_SUPER_MAGIC) return done();
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
  const auto deadline = Clock::now() + patience;
  while (true) {
    const auto tids = member_tids(roots_, match_);
    if (!tids) return tids.error();
    std::size_t changed = 0;
    for (const pid_t tid : *tids) {
      const auto mask = get_mask(tid);
      if (!mask || *mask == cpus || (!exactly && is_subset(*mask, cpus))) continue;  // has ended, or is right
      if (Status set = set_mask(tid, cpus); !set && set.error().code != ESRCH) return set;
      ++changed;
    }
    if (changed == 0) return done();
    if (Clock::now() >= deadline) {
      return Error{ErrorKind::Busy,
                   std::to_string(changed) + " threads still have other CPUs than " + format_cpulist(cpus) +
                       " after 1 s; the agent tries again in the next interval",
                   0};
    }
  }
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
    const std::string start = thread_start_time(roots_.proc, tid);
    const auto mask = get_mask(tid);
    if (start.empty() || !mask) continue;
    text += std::to_string(tid) + " " + start + " " + format_cpulist(*mask) + "\n";
  }
  return text;
}

Status AffinityKnob::restore(const std::string& snapshot) {
  const auto records = parse_records(snapshot);
  const auto known = [&](pid_t tid) -> const Record* {
    const auto found = records.find(tid);
    const bool alive = found != records.end() && found->second.start_time == thread_start_time(roots_.proc, tid);
    return alive ? &found->second : nullptr;
  };
  if (Status usable = probe(); !usable) return usable;  // threads that nobody can see have not gone
  auto members = member_tids(roots_, match_);
  if (!members) return members.error();
  std::vector<pid_t> tids = std::move(*members);
  for (const auto& [tid, record] : records) {
    if (known(tid) != nullptr) tids.push_back(tid);
  }
  for (const pid_t tid : tids) {
    const Record* record = known(tid);
    if (record == nullptr) record = known(process_of(roots_.proc, tid));
    const auto cpus = record == nullptr ? Result<CpuSet>(any_cpu()) : parse_cpulist(record->cpus);
    if (!cpus) return cpus.error();
    if (Status set = set_mask(tid, *cpus); !set && set.error().code != ESRCH) return set;
  }
  return done();
}

}  // namespace osml
