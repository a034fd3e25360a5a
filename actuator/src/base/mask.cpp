#include "base/mask.h"

#include <array>
#include <bit>
#include <charconv>

namespace osml {

std::string format_mask(std::uint64_t mask) {
  std::array<char, 16> digits{};
  const auto [end, code] = std::to_chars(digits.data(), digits.data() + digits.size(), mask, 16);
  return {digits.data(), end};
}

bool is_contiguous(std::uint64_t mask) {
  if (mask == 0) return false;
  const std::uint64_t run = mask >> static_cast<unsigned>(std::countr_zero(mask));
  return (run & (run + 1)) == 0;
}

std::uint64_t run_of_ones(unsigned count) { return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1; }

}  // namespace osml
