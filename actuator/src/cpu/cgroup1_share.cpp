#include <algorithm>
#include <cmath>

#include "base/number.h"
#include "cpu/cgroup1.h"
#include "cpu/members.h"
#include "cpu/quota.h"

namespace osml {

namespace {

constexpr const char* quota_file = "cpu.cfs_quota_us";
constexpr const char* period_file = "cpu.cfs_period_us";
constexpr const char* shares_file = "cpu.shares";
constexpr unsigned long long least_shares = 2;
constexpr unsigned long long most_shares = 262144;

Result<long long> read_signed(const fs::path& path) {
  const auto text = read_text(path);
  if (!text) return text.error();
  if (*text == "-1") return -1;
  const auto value = parse_unsigned(*text);
  if (!value) return Error{ErrorKind::Io, path.string() + " contains '" + *text + "', expected a number", 0};
  return static_cast<long long>(*value);
}

Status write_number(const fs::path& path, long long value) { return write_command(path, std::to_string(value) + "\n"); }

Status missing_group(const std::string& path, const char* file) {
  if (path.empty()) return Error{ErrorKind::Unsupported, "matched by process ids, not by a cgroup", 0};
  return Error{ErrorKind::Unsupported, "there is no cgroup v1 cpu directory " + path + " with " + file, 0};
}

unsigned long long shares_of(unsigned long long weight) {
  return std::clamp((weight * 1024 + 50) / 100, least_shares, most_shares);
}

}  // namespace

Cgroup1Quota::Cgroup1Quota(const Roots& roots, const Match& match) : path_(match.cgroup.value_or("")) {
  directory_ = cgroup1_of(roots, "cpu", match, found_);
}

Status Cgroup1Quota::probe() {
  if (!found_) return found_;
  const bool there = !directory_.empty() && osml::exists(directory_ / quota_file);
  return there ? done() : missing_group(path_, quota_file);
}

Result<std::string> Cgroup1Quota::read() {
  const auto quota = read_signed(directory_ / quota_file);
  if (!quota) return quota.error();
  const auto period = read_signed(directory_ / period_file);
  if (!period) return period.error();
  if (*quota < 0 || *period <= 0) return std::string();
  return format_number(static_cast<double>(*quota) / static_cast<double>(*period));
}

Status Cgroup1Quota::write(const std::string& value) {
  const auto cpus = parse_double(value);
  if (!cpus || *cpus <= 0) return Error{ErrorKind::Input, "cpu_quota '" + value + "' is not a positive number", 0};
  const Quota wanted = quota_for(*cpus);
  return set(*wanted.quota_us, wanted.period_us);
}

// Two files, so for a moment one is old and one is new. A group above its parent's share is refused, so that moment
// must not lie above both ends: of the two orders one never does.
Status Cgroup1Quota::set(long long quota_us, long long period_us) {
  const auto old_quota = read_signed(directory_ / quota_file);
  if (!old_quota) return old_quota.error();
  const auto old_period = read_signed(directory_ / period_file);
  if (!old_period) return old_period.error();
  const bool period_first = *old_quota < 0 || period_us >= *old_period;
  if (period_first) {
    if (Status set = write_number(directory_ / period_file, period_us); !set) return set;
  }
  if (Status set = write_number(directory_ / quota_file, quota_us); !set) return set;
  return period_first ? done() : write_number(directory_ / period_file, period_us);
}

bool Cgroup1Quota::same(const std::string& read, const std::string& wanted) const { return same_quota(read, wanted); }

Result<std::string> Cgroup1Quota::snapshot() {
  const auto quota = read_text(directory_ / quota_file);
  if (!quota) return quota.error();
  const auto period = read_text(directory_ / period_file);
  if (!period) return period.error();
  return *quota + " " + *period;
}

Status Cgroup1Quota::restore(const std::string& snapshot) {
  if (!found_ || directory_.empty()) return found_;
  const std::size_t blank = snapshot.find(' ');
  const auto period = parse_unsigned(snapshot.substr(std::min(blank + 1, snapshot.size())));
  const auto quota = parse_unsigned(snapshot.substr(0, blank));
  if (blank == std::string::npos || !period) {
    return Error{ErrorKind::Io, "journal: '" + snapshot + "', expected a quota and a period", 0};
  }
  return set(quota ? static_cast<long long>(*quota) : -1, static_cast<long long>(*period));
}

Cgroup1Weight::Cgroup1Weight(const Roots& roots, const Match& match) : path_(match.cgroup.value_or("")) {
  directory_ = cgroup1_of(roots, "cpu", match, found_);
}

Status Cgroup1Weight::probe() {
  if (!found_) return found_;
  const bool there = !directory_.empty() && osml::exists(directory_ / shares_file);
  return there ? done() : missing_group(path_, shares_file);
}

Result<std::string> Cgroup1Weight::read() {
  const auto shares = read_signed(directory_ / shares_file);
  if (!shares) return shares.error();
  return std::to_string(std::clamp<long long>((*shares * 100 + 512) / 1024, 1, 10000));
}

Status Cgroup1Weight::write(const std::string& value) {
  const auto weight = parse_unsigned(value);
  if (!weight) return Error{ErrorKind::Input, "cpu_weight '" + value + "' is not a number", 0};
  return write_number(directory_ / shares_file, static_cast<long long>(shares_of(*weight)));
}

bool Cgroup1Weight::same(const std::string& read, const std::string& wanted) const { return read == wanted; }

Result<std::string> Cgroup1Weight::snapshot() { return read_text(directory_ / shares_file); }

Status Cgroup1Weight::restore(const std::string& snapshot) {
  if (!found_ || directory_.empty()) return found_;
  return write_command(directory_ / shares_file, snapshot + "\n");
}

}  // namespace osml
