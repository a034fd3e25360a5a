// One binary for each target: OSML_FUZZ_TARGET names it.
#include <cstddef>
#include <cstdint>

#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  osml::fuzz::OSML_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
