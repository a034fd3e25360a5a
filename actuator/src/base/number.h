// Numbers as text, independent of the locale.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace osml {

// The shortest text that reads back as the same number: 1.5 -> "1.5", 2.0 -> "2".
std::string format_number(double value);
// The whole text is a finite number, or nothing.
std::optional<double> parse_double(std::string_view text);
// The whole text is an unsigned number in this base, or nothing.
std::optional<unsigned long long> parse_unsigned(std::string_view text, int base = 10);

}  // namespace osml
