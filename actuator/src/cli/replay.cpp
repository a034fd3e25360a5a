#include "replay/replay.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "daemon/clock.h"
#include "daemon/log.h"
#include "domain/json.h"

namespace osml::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr double longest_nap_s = 3600;

// SIGTERM and SIGINT end a replay between two decisions, so that on_exit is obeyed.
class Stops {
 public:
  Stops() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    ::sigprocmask(SIG_BLOCK, &set_, nullptr);
  }
  // Sleeps until then; true where it was told to stop.
  bool told_until(double monotonic) {
    while (true) {
      const double left_s = std::clamp(monotonic - monotonic_s(), 0.0, longest_nap_s);
      const auto whole = static_cast<time_t>(left_s);
      const timespec wait{whole, static_cast<long>((left_s - static_cast<double>(whole)) * 1e9)};
      if (::sigtimedwait(&set_, nullptr, &wait) > 0) return true;
      if (errno != EINTR && monotonic_s() >= monotonic) return false;
    }
  }

 private:
  sigset_t set_{};
};

// When the next decision is due, in wall time.
class Pace {
 public:
  explicit Pace(const std::optional<double>& rate) : rate_(rate) {}
  double due_s(double node_time_s) {
    const double now_s = monotonic_s();
    if (!rate_) return now_s;
    if (!begun_) due_s_ = now_s;
    // the next run in the file begins with a new clock, so it follows at once
    if (begun_ && node_time_s > last_node_s_) due_s_ += (node_time_s - last_node_s_) / *rate_;
    begun_ = true;
    last_node_s_ = node_time_s;
    return due_s_;
  }

 private:
  std::optional<double> rate_;
  bool begun_ = false;
  double last_node_s_ = 0;
  double due_s_ = 0;
};

struct Counts {
  std::size_t decisions = 0, agreeing = 0, differing = 0, not_compared = 0;
  void add(const Replayed& one) {
    ++decisions;
    ++(one.agrees ? (*one.agrees ? agreeing : differing) : not_compared);
  }
};

Json json_of(const Replayed& one) {
  const auto& [line, time_s, decision, then] = one.recorded;
  Json recorded = nullptr;
  if (then) recorded = {{"status", then->status}, {"message", then->message}};
  Json reasons = Json::array();
  for (const Reason& reason : decision.reasons) reasons.push_back(reason.text);
  return {{"line", line},
          {"seq", decision.seq},
          {"time_s", time_s},
          {"policy", decision.policy},
          {"reasons", std::move(reasons)},
          {"status", one.outcome.status},
          {"message", one.outcome.message},
          {"duration_ms", one.outcome.duration_ms ? Json(*one.outcome.duration_ms) : Json(nullptr)},
          {"recorded", std::move(recorded)},
          {"agrees", one.agrees ? Json(*one.agrees) : Json(nullptr)}};
}

std::string in_words(const Outcome& outcome) {
  if (outcome.status == "dry_run") return outcome.message.empty() ? "nothing to write" : "would write";
  return outcome.status;
}

void print_line(const Replayed& one, std::ostream& out) {
  const std::optional<Outcome>& then = one.recorded.outcome;
  std::array<char, 128> head{};
  (void)std::snprintf(head.data(), head.size(), "%8llu  %10.1f s  %-16s  then %-12s  %s",
                      static_cast<unsigned long long>(one.recorded.decision.seq), one.recorded.time_s,
                      in_words(one.outcome).c_str(), then ? then->status.c_str() : "unknown",
                      one.agrees ? (*one.agrees ? "agrees" : "DIFFERS") : "not compared");
  out << head.data() << '\n';
  for (const std::string_view line : split_lines(one.outcome.message)) out << "            " << line << '\n';
  if (one.outcome.status != "unchanged") {
    for (const Reason& reason : one.recorded.decision.reasons) out << "            because " << reason.text << '\n';
  }
  if (one.agrees && !*one.agrees && !then->message.empty()) out << "            then: " << then->message << '\n';
  out << std::flush;  // at the pace of the record, whoever reads it waits for the next
}

void print_summary(const Counts& counts, std::size_t unanswered, std::ostream& out) {
  out << counts.decisions << " decisions: " << counts.agreeing << " agree, " << counts.differing << " differ, "
      << counts.not_compared << " cannot be compared; " << unanswered << " intervals had none\n";
}

// As the daemon leaves the machine.
Status leave(Actuator& actuator, const Config& config) {
  if (config.on_exit == OnExit::Leave) return done();
  return actuator.restore();
}

}  // namespace

Status replay(const Options& options, const Replaying& wanted, std::ostream& out) {
  const auto config = load(options);
  if (!config) return config.error();
  configure_log(config->log);
  if (const auto checked = check_record(wanted.file, *config, wanted.range); !checked) return checked.error();
  auto file = RecordFile::open(wanted.file, *config, wanted.range);
  if (!file) return file.error();
  Stops stops;  // before the machine is touched
  auto actuator = Actuator::open(*config, {.read_only = options.dry_run, .fault_injection = options.fault_injection});
  if (!actuator) return actuator.error();
  if (!actuator->healed().empty()) spdlog::warn("{}", actuator->healed());

  ActuatorMachine machine(*actuator);
  Pace pace(wanted.pace);
  Counts counts;
  Json list = Json::array();
  Status read = done();
  bool told_to_stop = false;
  while (true) {
    auto recorded = file->next();
    if (!recorded) read = recorded.error();  // somebody changed the file since it was checked
    if (!recorded || !*recorded) break;
    told_to_stop = stops.told_until(pace.due_s((*recorded)->time_s));
    if (told_to_stop) break;
    const Replayed one = replay_one(machine, std::move(**recorded), options.dry_run);
    counts.add(one);
    if (options.json) {
      list.push_back(json_of(one));
    } else {
      print_line(one, out);
    }
  }
  const Status left = options.dry_run ? done() : leave(*actuator, *config);
  if (options.json) {
    out << Json{{"node", config->node},
                {"file", wanted.file.string()},
                {"dry_run", options.dry_run},
                {"decisions", std::move(list)},
                {"summary",
                 {{"decisions", counts.decisions},
                  {"agree", counts.agreeing},
                  {"differ", counts.differing},
                  {"not_compared", counts.not_compared},
                  {"unanswered", file->unanswered()},
                  {"stopped", told_to_stop}}}}
               .dump(2, ' ', false, Json::error_handler_t::replace)
        << '\n';
  } else {
    print_summary(counts, file->unanswered(), out);
  }
  if (!read) return read;
  if (!left) return left;
  if (told_to_stop) return Error{ErrorKind::Io, "stopped by a signal before the end of the record", 0};
  if (counts.differing > 0) {
    return Error{ErrorKind::Io,
                 std::to_string(counts.differing) + " of " + std::to_string(counts.decisions) +
                     " decisions came to something else than when they were recorded",
                 0};
  }
  return done();
}

}  // namespace osml::cli
