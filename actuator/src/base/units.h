// Factors between units of memory traffic and memory size.
#pragma once

namespace osml {

inline constexpr double mb_per_gb = 1000;
inline constexpr double bytes_per_gb = 1e9;
inline constexpr double bytes_per_mib = 1024.0 * 1024.0;

}  // namespace osml
