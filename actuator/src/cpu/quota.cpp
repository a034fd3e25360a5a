#include "cpu/quota.h"

#include <algorithm>
#include <cmath>

#include "base/number.h"

namespace osml {

namespace {

constexpr std::int64_t fine_period_us = 10'000;
constexpr std::int64_t longest_period_us = 1'000'000;
constexpr std::int64_t least_quota_us = 1'000;

}  // namespace

std::optional<double> Quota::cpus() const {
  if (!quota_us || period_us <= 0) return std::nullopt;
  return static_cast<double>(*quota_us) / static_cast<double>(period_us);
}

Quota quota_for(double cpus) {
  const auto period_for_least = static_cast<std::int64_t>(std::ceil(static_cast<double>(least_quota_us) / cpus - 1e-6));
  const std::int64_t period = std::clamp(period_for_least, fine_period_us, longest_period_us);
  const auto quota = static_cast<std::int64_t>(std::llround(cpus * static_cast<double>(period)));
  return {std::max(quota, least_quota_us), period};
}

std::optional<Quota> parse_cpu_max(std::string_view text) {
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const auto period = parse_unsigned(text.substr(blank + 1));
  const auto quota = parse_unsigned(text.substr(0, blank));
  if (!period || *period == 0 || (!quota && text.substr(0, blank) != "max")) return std::nullopt;
  Quota parsed{std::nullopt, static_cast<std::int64_t>(*period)};
  if (quota) parsed.quota_us = static_cast<std::int64_t>(*quota);
  return parsed;
}

std::string format_cpu_max(const Quota& quota) {
  return (quota.quota_us ? std::to_string(*quota.quota_us) : "max") + " " + std::to_string(quota.period_us);
}

bool same_quota(const std::string& read, const std::string& wanted) {
  const auto a = parse_double(read);
  const auto b = parse_double(wanted);
  return a && b && std::abs(*a - *b) <= 1e-4 + 1e-4 * *b;
}

}  // namespace osml
