#include "base/number.h"

#include <array>
#include <charconv>
#include <cmath>

namespace osml {

std::string format_number(double value) {
  // Without an exponent where a person or a kernel reads it: 100000, not 1e+05.
  constexpr double least = 1e-6;
  constexpr double most = 1e15;
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= least && size < most);
  std::array<char, 64> text{};
  const auto [end, code] = std::to_chars(text.data(), text.data() + text.size(), value,
                                         plain ? std::chars_format::fixed : std::chars_format::general);
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
