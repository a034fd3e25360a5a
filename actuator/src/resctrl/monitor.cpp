#include "resctrl/monitor.h"

#include "base/number.h"

namespace osml::resctrl {

Reading parse_reading(std::string_view text) {
  const std::string_view word = trim(text);
  if (word == "Unavailable") return {ReadingState::Unavailable, 0};
  if (word == "Unassigned") return {ReadingState::Unassigned, 0};
  const auto value = parse_unsigned(word);
  return value ? Reading{ReadingState::Value, *value} : Reading{ReadingState::Error, 0};
}

Reading read_event(const fs::path& group, std::string_view event) {
  const auto domains = list_directory(group / "mon_data");
  if (!domains) return {};
  Reading sum;
  for (const std::string& domain : *domains) {
    if (!domain.starts_with("mon_L3_")) continue;
    const auto text = read_text(group / "mon_data" / domain / event);
    if (!text) return {};
    const Reading reading = parse_reading(*text);
    if (reading.state != ReadingState::Value) return reading;
    sum = {ReadingState::Value, sum.value + reading.value};
  }
  return sum;
}

}  // namespace osml::resctrl
