#include "bandwidth/calibrate.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "apply/actuator.h"
#include "base/clock.h"
#include "base/number.h"
#include "cli/commands.h"
#include "cli/stops.h"
#include "cli/table.h"
#include "resctrl/monitor.h"

namespace osml::cli {

namespace {

Error unsupported(const std::string& why) { return {ErrorKind::Unsupported, "calibrate-mba: " + why, 0}; }

// The kernel's own unit: what is measured here is what the curve will say.
Result<MbaRange> hardware_range(const Actuator& actuator) {
  const auto& mechanisms = actuator.mechanisms();
  const auto mba =
      std::find_if(mechanisms.begin(), mechanisms.end(), [](const Mechanism& one) { return one.name == "mba"; });
  if (mba == mechanisms.end() || !mba->available || !actuator.platform().mba) {
    return unsupported(mba == mechanisms.end() ? "this node has no mechanism mba" : mba->reason);
  }
  if (actuator.platform().mba->unit != "percent") {
    return unsupported("the throttles of this node are already in " + actuator.platform().mba->unit +
                       "; a calibration is not needed");
  }
  return *actuator.platform().mba;
}

// Of all services that the node has by now, also those that pods ask for.
Decision throttle_decision(const Config& config, const std::string& service, unsigned setting) {
  Decision decision;
  decision.node = config.node;
  decision.policy = "calibrate-mba";
  decision.own = true;
  for (const ServiceConfig& one : config.services) {
    Assignment assignment;
    assignment.service = one.spec.name;
    if (one.spec.name == service) assignment.mba = setting;
    decision.assignments.push_back(assignment);
  }
  return decision;
}

Result<std::uint64_t> traffic(const Actuator& actuator, const std::string& service) {
  const std::string group = actuator.monitor_group(service);
  if (group.empty()) return unsupported("service '" + service + "' has no resctrl group that can count memory traffic");
  const resctrl::Reading reading = resctrl::read_traffic(group);
  if (reading.state == resctrl::ReadingState::Value) return reading.value;
  if (reading.state == resctrl::ReadingState::Unavailable) {
    return Error{ErrorKind::Busy,
                 "the counter of memory traffic of service '" + service +
                     "' is unavailable at the moment; run the calibration again",
                 0};
  }
  return unsupported("this machine does not count memory traffic (mbm_total_bytes, mbm_local_bytes)");
}

CalibrationBench bench_of(Actuator& actuator, const Config& config, const Calibration& calibration,
                          const NodeClock& clock, Stops& stops) {
  CalibrationBench bench;
  // Told while it waits, it fails at the next look, and what was set is restored.
  const auto stopped = std::make_shared<bool>(false);
  bench.throttle = [&actuator, &calibration](unsigned setting) -> Status {
    const Outcome outcome = actuator.apply(throttle_decision(actuator.config(), calibration.service, setting));
    if (took_effect(outcome)) return done();
    return Error{outcome.status == OutcomeStatus::Refused ? ErrorKind::Input : ErrorKind::Io,
                 text_of(outcome.status) + ": " + outcome.message, 0};
  };
  bench.total_bytes = [&actuator, &calibration, stopped]() -> Result<std::uint64_t> {
    if (*stopped) return Error{ErrorKind::Io, "a signal stopped the calibration", 0};
    return traffic(actuator, calibration.service);
  };
  bench.wait = [&config, &stops, stopped](double seconds) {
    *stopped = *stopped || stops.told_until(monotonic_s() + seconds / config.time_scale);
  };
  bench.now_s = [&clock] { return clock.now_s(); };
  bench.measured = [](const CurvePoint& point) {
    spdlog::info("throttle {} %: measured {:.2f} GB/s", point.setting, point.gbps);
  };
  return bench;
}

void print(const MbaCurve& curve, const Platform& platform, std::ostream& out) {
  const double peak = platform.bandwidth_gbps.value_or(curve.points().back().gbps);
  std::vector<std::vector<std::string>> rows{{"setting", "measured GB/s", "linear estimate"}};
  const auto largest = static_cast<double>(curve.points().back().setting);
  for (const CurvePoint& point : curve.points()) {
    rows.push_back({std::to_string(point.setting) + " " + curve.unit(), fmt::format("{:.2f}", point.gbps),
                    fmt::format("{:.2f}", peak * point.setting / largest)});
  }
  print_table(out, rows);
}

}  // namespace

Status calibrate_mba(const Options& options, const Calibration& calibration, std::ostream& out) {
  auto config = load(options);
  if (!config) return config.error();
  config->bandwidth.curve.reset();  // measured is what the kernel gives, not what an older curve says
  const bool known = std::any_of(config->services.begin(), config->services.end(), [&](const ServiceConfig& one) {
    return one.spec.name == calibration.service && one.spec.kind == "be";
  });
  if (!known) {
    return Error{
        ErrorKind::Input,
        "--service '" + calibration.service + "' is not a best-effort job (class be) in " + options.config.string(), 0};
  }
  Stops stops;  // before the machine is touched
  auto actuator = Actuator::open(*config, {.read_only = options.dry_run, .fault_injection = options.fault_injection});
  if (!actuator) return actuator.error();
  const Place* place = place_of(actuator->places(), calibration.service);
  if (place != nullptr && place->absent) return absent_error(place->service + " (" + place->why + ")");
  const auto range = hardware_range(*actuator);
  if (!range) return range.error();
  const std::vector<unsigned> settings = settings_of(*range, calibration.points);
  if (options.dry_run) {
    out << "would set " << settings.size() << " throttles of " << calibration.service << ", from " << settings.back()
        << " down to " << settings.front() << " " << range->unit << "\nwould measure each throttle for "
        << format_number(calibration.measure_s) << " s\nwould restore the throttle and write "
        << calibration.file.string() << '\n';
    return done();
  }
  const NodeClock clock(config->time_scale);
  const auto curve = calibrate(*range, settings, {calibration.settle_s, calibration.measure_s},
                               bench_of(*actuator, *config, calibration, clock, stops));
  Status restored = actuator->restore();
  if (!curve && !restored) spdlog::error("{}", restored.error().message);
  if (!curve) return curve.error();
  if (!restored) return restored;
  const std::string text = format_curve(*curve, config->node, calibration.service);
  if (Status written = write_atomically(calibration.file, text); !written) return written;
  if (options.json) {
    out << text;
  } else {
    print(*curve, actuator->platform(), out);
    out << "wrote " << calibration.file.string() << "; set bandwidth.curve to this file in " << options.config.string()
        << '\n';
  }
  return done();
}

}  // namespace osml::cli
