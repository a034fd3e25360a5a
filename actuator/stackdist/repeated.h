// Which x86 instructions QEMU executes once per element: REP MOVS and their kind. A CPU retires one instruction.
#pragma once

#include <cstddef>
#include <cstdint>

namespace osml::stackdist {

inline bool is_repeated(const std::uint8_t* code, std::size_t size) {
  bool repeats = false;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint8_t byte = code[i];
    const bool prefix = byte == 0x66 || byte == 0x67 || (byte & 0xf0U) == 0x40;  // sizes, REX
    if (byte == 0xf2 || byte == 0xf3) {
      repeats = true;
    } else if (!prefix) {
      return repeats && ((byte >= 0xa4 && byte <= 0xa7) || (byte >= 0xaa && byte <= 0xaf));
    }
  }
  return false;
}

}  // namespace osml::stackdist
