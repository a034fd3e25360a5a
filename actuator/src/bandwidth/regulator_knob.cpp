#include "bandwidth/regulator_knob.h"

#include <algorithm>

#include "bandwidth/brake.h"
#include "base/number.h"

namespace osml {

std::optional<std::string> regulator_obstacle(const Roots& roots, const std::optional<resctrl::Info>& info) {
  if (roots.budgets.empty()) return "the software regulator is switched off (bandwidth.regulator)";
  if (!info || !info->monitor) {
    return "the software regulator needs counters of memory traffic: resctrl does not monitor on this machine";
  }
  const auto& events = info->monitor->events;
  const bool counts = std::any_of(events.begin(), events.end(), [](const std::string& event) {
    return event == "mbm_total_bytes" || event == "mbm_local_bytes";
  });
  if (!counts)
    return "the software regulator needs counters of memory traffic: resctrl has no mbm_*_bytes on this machine";
  return std::nullopt;
}

RegulatorKnob::RegulatorKnob(const Roots& roots, std::string service, const Match& match,
                             std::optional<resctrl::Info> info)
    : roots_(roots), service_(std::move(service)), match_(match), info_(std::move(info)) {}

Status RegulatorKnob::probe() {
  if (const auto why = regulator_obstacle(roots_, info_)) return Error{ErrorKind::Unsupported, *why, 0};
  return Brake(roots_, service_, match_).probe();
}

Result<std::string> RegulatorKnob::read() {
  if (roots_.budgets.empty() || !osml::exists(file())) return std::string();
  return read_text(file());
}

Status RegulatorKnob::write(const std::string& value) {
  if (!parse_unsigned(value)) return Error{ErrorKind::Input, "mba '" + value + "' is not a number of MB/s", 0};
  std::error_code failed;
  fs::create_directories(roots_.budgets, failed);
  if (failed) return Error{ErrorKind::Io, roots_.budgets.string() + ": " + failed.message(), failed.value()};
  return write_atomically(file(), value + "\n");
}

Status RegulatorKnob::restore(const std::string& snapshot) {
  if (!snapshot.empty()) return write(snapshot);
  std::error_code ignored;  // not there: nothing to remove
  if (!roots_.budgets.empty()) fs::remove(file(), ignored);
  return Brake(roots_, service_, match_).release();
}

}  // namespace osml
