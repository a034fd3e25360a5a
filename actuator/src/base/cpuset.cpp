#include "base/cpuset.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "base/files.h"

namespace osml {

namespace {

constexpr unsigned max_cpu = 8191;  // CONFIG_NR_CPUS of the largest distribution kernels

std::optional<unsigned> cpu_id(std::string_view text) {
  unsigned value = 0;
  const char* last = text.data() + text.size();
  const auto [end, code] = std::from_chars(text.data(), last, value);
  if (text.empty() || code != std::errc{} || end != last || value > max_cpu) return std::nullopt;
  return value;
}

}  // namespace

Result<CpuSet> parse_cpulist(std::string_view text) {
  CpuSet cpus;
  std::string_view rest = trim(text);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const auto low = cpu_id(part.substr(0, dash));
    const auto high = dash == std::string_view::npos ? low : cpu_id(part.substr(dash + 1));
    if (!low || !high || *low > *high) {
      return Error{ErrorKind::Input, "CPU list '" + std::string(text) + "': '" + std::string(part) +
                                         "', expected a CPU id or an ascending range such as 0-3, at most 8191"};
    }
    for (unsigned cpu = *low; cpu <= *high; ++cpu) cpus.push_back(cpu);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string format_cpulist(const CpuSet& cpus) {
  std::string text;
  for (std::size_t first = 0; first < cpus.size();) {
    std::size_t last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpus[first]);
    if (last > first) text += '-' + std::to_string(cpus[last]);
    first = last + 1;
  }
  return text;
}

bool is_same_cpulist(std::string_view a, std::string_view b) {
  const auto left = parse_cpulist(a);
  const auto right = parse_cpulist(b);
  return left && right && *left == *right;
}

CpuSet intersect(const CpuSet& a, const CpuSet& b) {
  CpuSet both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

CpuSet unite(const CpuSet& a, const CpuSet& b) {
  CpuSet either;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(either));
  return either;
}

CpuSet without(const CpuSet& whole, const CpuSet& part) {
  CpuSet rest;
  std::set_difference(whole.begin(), whole.end(), part.begin(), part.end(), std::back_inserter(rest));
  return rest;
}

bool is_subset(const CpuSet& part, const CpuSet& whole) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

}  // namespace osml
