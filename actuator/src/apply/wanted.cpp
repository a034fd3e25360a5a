#include "apply/wanted.h"

#include <array>
#include <charconv>

#include "base/number.h"

namespace osml {

namespace {

std::string hex(std::uint64_t value) {
  std::array<char, 16> digits{};
  const auto [end, code] = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return {digits.data(), end};
}

}  // namespace

Wanted wanted_values(const Assignment& assignment) {
  Wanted wanted;
  if (assignment.way_mask) wanted[Aspect::Ways] = hex(*assignment.way_mask);
  if (assignment.mba) wanted[Aspect::Mba] = std::to_string(*assignment.mba);
  if (!wanted.empty()) {
    wanted[Aspect::Group] = "present";
    wanted[Aspect::Tasks] = "in";
  }
  if (assignment.cpus) wanted[Aspect::Cpus] = *assignment.cpus;
  if (assignment.cpu_quota) wanted[Aspect::Quota] = format_number(*assignment.cpu_quota);
  if (assignment.cpu_weight) wanted[Aspect::Weight] = std::to_string(*assignment.cpu_weight);
  return wanted;
}

}  // namespace osml
