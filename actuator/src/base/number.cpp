#include "base/number.h"

#include <array>
#include <charconv>
#include <cmath>

namespace osml {

std::string format_number(double value) {
  std::array<char, 32> text{};
  const auto [end, code] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

std::optional<double> parse_double(std::string_view text) {
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, code] = std::from_chars(text.data(), last, value);
  if (text.empty() || code != std::errc{} || end != last || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<unsigned long long> parse_unsigned(std::string_view text, int base) {
  unsigned long long value = 0;
  const char* last = text.data() + text.size();
  const auto [end, code] = std::from_chars(text.data(), last, value, base);
  if (text.empty() || code != std::errc{} || end != last) return std::nullopt;
  return value;
}

}  // namespace osml
