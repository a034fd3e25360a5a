// Factors between units of memory traffic and memory size.
#pragma once

namespace osml {

inline constexpr double mb_per_gb = 1000;
inline constexpr double bytes_per_gb = 1e9;
inline constexpr double bytes_per_mib = 1024.0 * 1024.0;

inline constexpr double us_per_s = 1e6;
inline constexpr double ns_per_s = 1e9;

}  // namespace osml
