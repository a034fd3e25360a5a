#include <spdlog/spdlog.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/replay_report.h"
#include "cli/stops.h"
#include "replay/pace.h"
#include "report/log.h"

namespace osml::cli {

namespace {

// Until the end of the record or a signal. The error: somebody changed the file since it was checked, or reads no more.
Result<bool> apply_all(RecordFile& file, Machine& machine, Stops& stops, Pace pace, bool dry_run,
                       ReplayReport& report) {
  std::vector<Assignment> found;
  if (dry_run) {
    if (auto read = machine.read()) found = std::move(*read);
  }
  std::optional<Supposing> supposing;
  while (true) {
    auto recorded = file.next();
    if (!recorded) return recorded.error();
    if (!*recorded) return false;
    if (stops.told_until(pace.due_s((*recorded)->time_s, monotonic_s()))) return true;
    report.add(replay_one(machine, std::move(**recorded), dry_run, found, supposing));
    if (!report.is_heard()) {
      return Error{ErrorKind::Io, "standard output cannot be written; the replay stopped before the end of the record"};
    }
  }
}

Status verdict(const ReplayReport& report, bool stopped) {
  if (stopped) return Error{ErrorKind::Io, "a signal stopped the replay before the end of the record", 0};
  if (report.differing() == 0) return done();
  return Error{ErrorKind::Io,
               std::to_string(report.differing()) + " of " + std::to_string(report.decisions()) +
                   " decisions have another outcome than in the record",
               0};
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
  ReplayReport report(out, options.json, {config->node, wanted.file.string(), options.dry_run});
  const auto stopped = apply_all(*file, machine, stops, Pace(wanted.pace), options.dry_run, report);
  // As the daemon leaves the machine.
  const bool restores = !options.dry_run && config->on_exit == OnExit::Restore;
  Status left = restores ? actuator->restore() : done();
  report.finish(file->unanswered(), file->damaged(), stopped && *stopped);
  if (!stopped) return stopped.error();
  if (!left) return left;
  return verdict(report, *stopped);
}

}  // namespace osml::cli
