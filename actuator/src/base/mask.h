// Capacity masks: one bit a cache way.
#pragma once

#include <cstdint>
#include <string>

namespace osml {

// Lower-case hexadecimal without 0x, as the kernel writes masks.
std::string format_mask(std::uint64_t mask);
// The set bits form one run; an empty mask has none.
bool is_contiguous(std::uint64_t mask);
// The lowest `count` bits: 3 -> 7.
std::uint64_t run_of_ones(unsigned count);

}  // namespace osml
