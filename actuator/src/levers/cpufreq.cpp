#include "levers/cpufreq.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>

#include "base/number.h"

namespace osml {

namespace {

constexpr std::string_view part_prefix = "cpufreq/";
constexpr std::string_view policy_prefix = "policy";
constexpr const char* offline = "offline";
constexpr double khz_per_mhz = 1000;

fs::path sysfs_cpus(const Roots& roots) { return roots.sysfs / "devices" / "system" / "cpu"; }

// N of "policyN".
std::optional<unsigned> policy_number(std::string_view name) {
  constexpr std::size_t most_digits = 4;
  if (!name.starts_with(policy_prefix)) return std::nullopt;
  const std::string_view digits = name.substr(policy_prefix.size());
  const auto number = digits.size() > most_digits ? std::nullopt : parse_unsigned(digits);
  return number ? std::optional(static_cast<unsigned>(*number)) : std::nullopt;
}

// cpufreq writes numbers with blanks between them, and one at the end.
std::vector<std::uint64_t> numbers_of(std::string_view text) {
  std::vector<std::uint64_t> numbers;
  for (text = trim(text); !text.empty(); text = trim(text)) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const auto number = parse_unsigned(text.substr(0, end));
    if (number) numbers.push_back(*number);
    text.remove_prefix(end);
  }
  return numbers;
}

Result<CpuSet> related_cpus(const fs::path& policy) {
  const auto text = read_text(policy / "related_cpus");
  if (!text) return text.error();
  CpuSet cpus;
  for (const std::uint64_t cpu : numbers_of(*text)) cpus.push_back(static_cast<unsigned>(cpu));
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

std::optional<std::uint64_t> khz_of(const std::string& mhz) {
  const auto number = parse_double(mhz);
  if (!number || *number <= 0) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(*number * khz_per_mhz));
}

std::string mhz_text(std::uint64_t khz) { return format_number(static_cast<double>(khz) / khz_per_mhz); }

}  // namespace

bool is_clock_part(std::string_view name) {
  return name.starts_with(part_prefix) && policy_number(name.substr(part_prefix.size()));
}

bool is_clock_offline(const Error& error) { return error.kind == ErrorKind::Busy || error.kind == ErrorKind::Gone; }

Result<std::vector<ClockDomain>> find_clock_domains(const Roots& roots, const CpuSet& usable,
                                                    const std::optional<CpuSet>& allowed) {
  const fs::path all = sysfs_cpus(roots) / "cpufreq";
  std::map<unsigned, ClockDomain> domains;
  bool reserved = false;
  for (const std::string& name : list_directory(all).ok() ? *list_directory(all) : std::vector<std::string>()) {
    const auto number = policy_number(name);
    const auto cpus = number ? related_cpus(all / name) : Result<CpuSet>(CpuSet{});
    if (!cpus || intersect(*cpus, usable).empty()) continue;
    if (allowed && !is_subset(*cpus, *allowed)) {
      reserved = true;
      continue;
    }
    domains[*number] = {std::string(part_prefix) + name, intersect(*cpus, usable)};
  }
  std::vector<ClockDomain> found;
  found.reserve(domains.size());
  for (auto& [number, domain] : domains) found.push_back(std::move(domain));
  if (!found.empty()) return found;
  return Error{ErrorKind::Unsupported,
               reserved ? "each clock domain has a CPU outside of cpu.cpus, whose clock the agent leaves alone"
                        : "there is no policy in " + all.string() +
                              ": the kernel has no driver for the clock here, which is usual in virtual machines",
               0};
}

ClockKnob::ClockKnob(const Roots& roots, std::string_view part)
    : cpus_(sysfs_cpus(roots)),
      directory_(cpus_ / "cpufreq" / std::string(part.substr(std::min(part.size(), part_prefix.size())))) {}

Status ClockKnob::probe() {
  if (const auto least = least_khz(); !least) return least.error();
  if (const auto now = read_number(file()); !now) return now.error();
  if (::access(file().c_str(), W_OK) == 0) return done();
  Error error = errno_error(errno, file().string() + " cannot be written");
  error.message += "; give the agent write access to it";
  return error;
}

Result<std::string> ClockKnob::read() {
  const auto khz = read_number(file());
  if (khz) return mhz_text(*khz);
  return is_clock_offline(khz.error()) ? Result<std::string>(offline) : khz.error();
}

Status ClockKnob::write(const std::string& value) {
  const auto khz = khz_of(value);
  if (!khz) return Error{ErrorKind::Input, "frequency_mhz '" + value + "' is not a number of MHz above 0", 0};
  return write_command(file(), std::to_string(*khz) + "\n");
}

std::vector<std::uint64_t> ClockKnob::table_khz() const {
  std::vector<std::uint64_t> table;
  for (const char* name : {"scaling_available_frequencies", "scaling_boost_frequencies"}) {
    const auto text = read_text(directory_ / name);
    if (!text) continue;
    const auto some = numbers_of(*text);
    table.insert(table.end(), some.begin(), some.end());
  }
  std::sort(table.begin(), table.end());
  return table;
}

std::uint64_t ClockKnob::settled(std::uint64_t khz) const {
  const auto table = table_khz();
  if (table.empty()) return khz;
  const auto above = std::upper_bound(table.begin(), table.end(), khz);
  return above == table.begin() ? table.front() : *std::prev(above);
}

bool ClockKnob::same(const std::string& read, const std::string& wanted) const {
  if (read == offline) return true;
  const auto now = khz_of(read);
  const auto limit = khz_of(wanted);
  return now && limit && (*now == *limit || *now == settled(*limit));
}

bool ClockKnob::accepts(const std::string& read, const std::string& wanted) const {
  const auto now = khz_of(read);
  const auto limit = khz_of(wanted);
  return same(read, wanted) || (now && limit && *now < *limit);
}

Result<std::string> ClockKnob::snapshot() { return read_text(file()); }

Status ClockKnob::restore(const std::string& snapshot) {
  const auto khz = parse_unsigned(snapshot);
  if (!khz) return Error{ErrorKind::Input, "the journal has the clock '" + snapshot + "', expected a number of kHz", 0};
  Status written = write_command(file(), snapshot + "\n");
  if (!written && written.error().kind == ErrorKind::Busy) {
    return written.error().wrap("none of its CPUs is online; bring one online and restore again");
  }
  if (!written) return written;
  const auto now = read();
  if (!now) return now.error();
  if (accepts(*now, mhz_text(*khz))) return done();
  return Error{ErrorKind::Io,
               file().string() + ": the agent restored " + mhz_text(*khz) + " MHz, but the kernel reports " + *now, 0};
}

Status ClockKnob::reconcile(const std::string& value) {
  const auto now = read();
  if (!now) return now.error();
  if (same(*now, value)) return done();
  Status written = write(value);
  return !written && is_clock_offline(written.error()) ? done() : written;
}

Result<std::uint64_t> ClockKnob::least_khz() const {
  const auto hardware = read_number(directory_ / "cpuinfo_min_freq");
  if (!hardware) return hardware.error();
  const auto operators = read_number(directory_ / "scaling_min_freq");
  if (!operators) return operators.error();
  return std::uint64_t{std::max(*hardware, *operators)};
}

Result<std::optional<std::string>> ClockKnob::limit(std::uint64_t mhz, const std::string& found, Reach reach) {
  const auto most = parse_unsigned(found);
  if (!most) return Error{ErrorKind::Io, file().string() + " contains '" + found + "', expected a number of kHz", 0};
  const auto least = least_khz();
  if (!least) return least.error();
  std::uint64_t reached = *most;
  for (const char* name : {"cpuinfo_max_freq", "bios_limit"}) {
    if (reach == Reach::AsFound) break;
    const auto now = read_number(directory_ / name);
    if (now && *now > 0) reached = std::min<std::uint64_t>(reached, *now);
  }
  const auto asked = static_cast<std::uint64_t>(static_cast<double>(mhz) * khz_per_mhz);
  if (asked >= *most) return std::optional<std::string>();
  const std::uint64_t khz = std::min(std::max(asked, *least), reached);
  return khz >= *most ? std::optional<std::string>() : std::optional(mhz_text(khz));
}

// intel_pstate tells it in the policy, others by ACPI's CPPC, in MHz.
std::optional<std::uint64_t> ClockKnob::nominal_khz(unsigned cpu) const {
  const auto base = read_number(directory_ / "base_frequency");
  if (base && *base > 0) return *base;
  const auto cppc = read_number(cpus_ / ("cpu" + std::to_string(cpu)) / "acpi_cppc" / "nominal_freq");
  if (cppc && *cppc > 0) return static_cast<std::uint64_t>(static_cast<double>(*cppc) * khz_per_mhz);
  return std::nullopt;
}

std::string ClockKnob::driver() const {
  const auto text = read_text(directory_ / "scaling_driver");
  return text && !text->empty() ? *text : "unknown driver";
}

}  // namespace osml
