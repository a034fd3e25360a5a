#include "resctrl/monitor.h"

#include <vector>

#include "base/number.h"

namespace osml::resctrl {

Reading parse_reading(std::string_view text) {
  const std::string_view word = trim(text);
  if (word == "Unavailable") return {ReadingState::Unavailable, 0};
  if (word == "Unassigned") return {ReadingState::Unassigned, 0};
  const auto value = parse_unsigned(word);
  return value ? Reading{ReadingState::Value, *value} : Reading{ReadingState::Error, 0};
}

namespace {

std::vector<fs::path> domain_directories(const fs::path& group) {
  std::vector<fs::path> found;
  const auto names = list_directory(group / "mon_data");
  if (!names) return found;
  for (const std::string& name : *names) {
    if (name.starts_with("mon_L3_")) found.push_back(group / "mon_data" / name);
  }
  return found;
}

}  // namespace

Reading read_event(const fs::path& group, std::string_view event) {
  Reading sum;
  for (const fs::path& domain : domain_directories(group)) {
    const auto text = read_text(domain / event);
    if (!text) return {};
    const Reading reading = parse_reading(*text);
    if (reading.state != ReadingState::Value) return reading;
    sum = {ReadingState::Value, sum.value + reading.value};
  }
  return sum;
}

std::string_view traffic_event(const fs::path& domain) {
  constexpr std::string_view total = "mbm_total_bytes";
  return osml::exists(domain / total) ? total : "mbm_local_bytes";
}

Reading read_traffic(const fs::path& group) {
  const std::vector<fs::path> domains = domain_directories(group);
  return domains.empty() ? Reading{} : read_event(group, traffic_event(domains.front()));
}

}  // namespace osml::resctrl
