// "Did you mean": the known word nearest to a mistyped one.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace osml {

// None where nothing is near: more than a third of the letters would have to change, and it does not begin a known
// word.
std::optional<std::string_view> nearest(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace osml
