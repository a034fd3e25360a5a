#include "sense/pressure.h"

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace osml {

std::optional<std::uint64_t> stalled_us(std::string_view text) {
  constexpr std::string_view some = "some ";
  constexpr std::string_view total = "total=";
  for (const std::string_view line : split_lines(text)) {
    if (!line.starts_with(some)) continue;
    const std::size_t at = line.find(total);
    return at == std::string_view::npos ? std::nullopt : leading_number(line.substr(at + total.size()));
  }
  return std::nullopt;
}

Pressure::Pressure(fs::path cpu, fs::path memory, fs::path io)
    : cpu_{KeptFile(std::move(cpu)), {}}, memory_{KeptFile(std::move(memory)), {}}, io_{KeptFile(std::move(io)), {}} {}

std::optional<double> Pressure::share(Stall& stall, const Interval& interval) {
  const auto text = stall.file.read();
  const auto total = text ? stalled_us(*text) : std::nullopt;
  if (!total) {
    stall.total.forget();
    return std::nullopt;
  }
  const auto grown = stall.total.grown(static_cast<double>(*total) / us_per_s);
  return grown ? std::optional<double>(std::min(1.0, *grown / interval.length_s)) : std::nullopt;
}

PressureShares Pressure::read(const Interval& interval) {
  return {share(cpu_, interval), share(memory_, interval), share(io_, interval)};
}

bool Pressure::available() const {
  return osml::exists(cpu_.file.path()) || osml::exists(memory_.file.path()) || osml::exists(io_.file.path());
}

}  // namespace osml
