// Words of others in our log: bounded, on one line, without what a terminal obeys.
#pragma once

#include <string>
#include <string_view>

namespace osml {

// Control characters, those of two bytes (U+0080 to U+009F) too, become '?'; a longer text is cut and ends in "...".
std::string printable(std::string_view text, std::size_t longest);

}  // namespace osml
