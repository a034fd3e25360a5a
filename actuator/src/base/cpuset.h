// Sets of logical CPUs as the kernel writes them: "0-3,8". Empty text is the empty set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace osml {

// Ascending, each id once.
using CpuSet = std::vector<unsigned>;

// Error Input, naming the part, for anything but ids, ascending ranges and commas; ids go up to 8191.
Result<CpuSet> parse_cpulist(std::string_view text);
// The shortest list: {0, 1, 2, 8} -> "0-2,8".
std::string format_cpulist(const CpuSet& cpus);
// Both are lists, of the same ids.
bool is_same_cpulist(std::string_view a, std::string_view b);

CpuSet intersect(const CpuSet& a, const CpuSet& b);
CpuSet unite(const CpuSet& a, const CpuSet& b);
// What is in `whole` and not in `part`.
CpuSet without(const CpuSet& whole, const CpuSet& part);
bool is_subset(const CpuSet& part, const CpuSet& whole);

}  // namespace osml
