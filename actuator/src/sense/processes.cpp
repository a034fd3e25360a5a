#include "sense/processes.h"

#include <unistd.h>

#include <algorithm>

namespace osml {

namespace {

constexpr double kib_per_mib = 1024.0;

double ticks_per_second() {
  static const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return ticks;
}

template <class T>
void add(std::optional<T>& sum, const std::optional<T>& value) {
  if (value) sum = sum.value_or(T{}) + *value;
}

std::optional<double> mib(const std::optional<std::uint64_t>& kib) {
  return kib ? std::optional<double>(static_cast<double>(*kib) / kib_per_mib) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> cpu_ticks(std::string_view stat) {
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  stat.remove_prefix(name_end + 1);
  constexpr int utime = 11;  // fields between the name and utime: state, ppid, ... cmajflt
  std::uint64_t sum = 0;
  for (int field = 0; field <= utime + 1; ++field) {
    const std::size_t start = stat.find_first_not_of(' ');
    if (start == std::string_view::npos) return std::nullopt;
    stat.remove_prefix(start);
    if (field >= utime) {
      const auto ticks = leading_number(stat);
      if (!ticks) return std::nullopt;
      sum += *ticks;
    }
    stat.remove_prefix(std::min(stat.find(' '), stat.size()));
  }
  return sum;
}

void Processes::follow(const std::vector<pid_t>& pids) {
  for (auto known = processes_.begin(); known != processes_.end();) {
    const bool stays = std::binary_search(pids.begin(), pids.end(), known->first);
    known = stays ? std::next(known) : processes_.erase(known);
  }
  for (const pid_t pid : pids) {
    if (processes_.contains(pid)) continue;
    const fs::path directory = root_ / std::to_string(pid);
    processes_.emplace(pid, Process{KeptFile(directory / "status"), KeptFile(directory / "stat"), {}});
  }
}

ProcessTotals Processes::read(const std::vector<pid_t>& pids, bool with_cpu) {
  follow(pids);
  ProcessTotals totals;
  for (auto& [pid, process] : processes_) {
    if (const auto status = process.status.read()) {
      add(totals.threads, keyed_number(*status, "Threads:"));
      add(totals.rss_mib, mib(keyed_number(*status, "VmRSS:")));
      add(totals.vms_mib, mib(keyed_number(*status, "VmSize:")));
    } else {
      // Gone, and the number may come back as another process: no rate across the two.
      process.cpu.forget();
      process.stat.close();
      continue;
    }
    if (!with_cpu) continue;
    const auto stat = process.stat.read();
    const auto ticks = stat ? cpu_ticks(*stat) : std::nullopt;
    if (ticks) add(totals.cpu_s, process.cpu.grown(static_cast<double>(*ticks) / ticks_per_second()));
  }
  return totals;
}

}  // namespace osml
