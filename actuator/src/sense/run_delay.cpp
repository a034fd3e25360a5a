#include "sense/run_delay.h"

#include "base/kept_file.h"
#include "base/units.h"

namespace osml {

namespace {

constexpr std::size_t most_threads = 512;  // about 3 ms

}  // namespace

std::optional<RunDelay> parse_schedstat(std::string_view text) {
  const auto fields = leading_numbers<3>(text);
  if (!fields) return std::nullopt;
  return RunDelay{static_cast<double>((*fields)[1]) / ns_per_s, static_cast<double>((*fields)[2])};
}

std::optional<RunDelay> RunDelaySensor::read(const std::vector<pid_t>& tids) {
  why_.clear();
  if (tids.size() > most_threads) {
    why_ = "the service has " + std::to_string(tids.size()) + " threads, the agent reads at most " +
           std::to_string(most_threads);
    threads_.clear();
    return std::nullopt;
  }
  std::map<pid_t, Thread> known;
  std::optional<RunDelay> sum;
  for (const pid_t tid : tids) {
    const auto text = read_text(root_ / std::to_string(tid) / "schedstat");
    const auto total = text ? parse_schedstat(*text) : std::nullopt;
    if (!total) continue;
    const auto before = threads_.find(tid);
    Thread& thread = known.emplace(tid, before == threads_.end() ? Thread{} : before->second).first->second;
    const auto delay = thread.delay.grown(total->delay_s);
    const auto switches = thread.switches.grown(total->switches);
    if (!delay || !switches) continue;
    if (!sum) sum = RunDelay{};
    sum->delay_s += *delay;
    sum->switches += *switches;
  }
  if (known.empty() && !tids.empty()) why_ = (root_ / "PID/schedstat").string() + " cannot be read";
  threads_ = std::move(known);
  return sum;
}

}  // namespace osml
