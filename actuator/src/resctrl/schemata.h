// The text of a schemata file, both as kernels up to 6.14 pad it ("L3:0=00f", "MB:0= 10") and as later ones do not.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace osml::resctrl {

// One resource: domain id -> mask (cache) or bandwidth value (MB, SMBA). Domain ids may be sparse.
struct SchemataLine {
  std::string resource;  // L3, L3CODE, L3DATA, L2, MB, SMBA, ...
  std::map<unsigned, std::uint64_t> values;
};

using Schemata = std::vector<SchemataLine>;

// Caches hold hexadecimal masks, everything else decimal numbers.
bool is_cache(std::string_view resource);

Result<Schemata> parse_schemata(std::string_view text);
// One line without padding and without newline: "L3:0=ff;1=ff".
std::string format_line(const SchemataLine& line);
// The line of a resource, or nullptr.
const SchemataLine* find_line(const Schemata& schemata, std::string_view resource);

// Reads a group's schemata file, once it is whole: on trees that user space serves from plain files, a command
// stands in the file until the server has merged it with the other resources; the kernel never makes us wait.
// `whole` lists the resources that a complete file has. At most a second.
Result<Schemata> read_schemata(const fs::path& group, const std::vector<std::string>& whole = {});

}  // namespace osml::resctrl
