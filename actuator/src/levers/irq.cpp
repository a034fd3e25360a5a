#include "levers/irq.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/number.h"

namespace osml {

namespace {

constexpr std::string_view irq_prefix = "irq/";
constexpr const char* interrupt_gone = "gone";
constexpr char name_end = '/';  // no name of a directory has one

std::optional<std::uint64_t> irq_number(std::string_view text) {
  constexpr std::size_t most_digits = 9;
  const bool digits = !text.empty() && text.size() <= most_digits &&
                      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? parse_unsigned(text) : std::nullopt;
}

// The kernel makes a directory for each handler that has a name of its own.
std::vector<std::string> handlers(const fs::path& directory) {
  const auto names = list_subdirectories(directory);
  return names ? *names : std::vector<std::string>();
}

bool is_read_only(const fs::path& file) {
  struct stat facts {};
  return ::stat(file.c_str(), &facts) == 0 && (facts.st_mode & S_IWUSR) == 0;
}

std::string cpus_in(const std::string& snapshot) { return snapshot.substr(0, snapshot.find(' ')); }

}  // namespace

bool is_interrupt_part(std::string_view name) {
  return name.starts_with(irq_prefix) && irq_number(name.substr(irq_prefix.size()));
}

fs::path interrupt_directory(const Roots& roots) { return roots.irq.empty() ? roots.proc / "irq" : roots.irq; }

Result<std::vector<Interrupt>> list_interrupts(const Roots& roots) {
  const fs::path all = interrupt_directory(roots);
  const auto numbers = list_subdirectories(all);
  if (!numbers) return numbers.error();
  std::map<std::uint64_t, Interrupt> used;
  for (const std::string& text : *numbers) {
    const auto number = irq_number(text);
    auto names = number ? handlers(all / text) : std::vector<std::string>();
    if (names.empty()) continue;
    const bool fixed = is_read_only(all / text / "smp_affinity_list");
    used[*number] = {std::string(irq_prefix) + text, std::move(names), fixed};
  }
  std::vector<Interrupt> interrupts;
  for (auto& [number, one] : used) interrupts.push_back(std::move(one));
  return interrupts;
}

std::optional<CpuSet> interrupt_cpus(const std::string& snapshot) {
  const auto cpus = parse_cpulist(cpus_in(snapshot));
  return cpus && !cpus->empty() ? std::optional(*cpus) : std::nullopt;
}

bool is_same_interrupt(const std::string& snapshot, const std::vector<std::string>& names) {
  const std::size_t blank = snapshot.find(' ');
  if (blank == std::string::npos || names.empty()) return true;
  const std::string before = name_end + snapshot.substr(blank + 1) + name_end;
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return before.find(name_end + name + name_end) != std::string::npos;
  });
}

InterruptKnob::InterruptKnob(const Roots& roots, std::string_view part)
    : directory_(interrupt_directory(roots) / std::string(part.substr(std::min(part.size(), irq_prefix.size())))) {}

Status InterruptKnob::probe() {
  if (::access(file().c_str(), W_OK) == 0) return done();
  Error error = errno_error(errno, file().string() + " cannot be written");
  error.message += "; give the agent write access to it";
  return error;
}

Result<std::string> InterruptKnob::read() {
  auto text = read_text(file());
  if (text || text.error().kind != ErrorKind::Gone) return text;
  return std::string(interrupt_gone);
}

Status InterruptKnob::write(const std::string& value) {
  const auto cpus = parse_cpulist(value);
  if (!cpus || cpus->empty()) {
    return Error{ErrorKind::Input, "cpus '" + value + "' of an interrupt is no list of CPUs such as 0-3", 0};
  }
  refused_.reset();
  Status written = write_command(file(), format_cpulist(*cpus) + "\n");
  if (written || written.error().kind == ErrorKind::Gone) return done();
  const int code = written.error().code;
  if (code != EIO && code != EPERM && code != ENOSPC) return written;
  refused_ = written.error();
  return done();
}

bool InterruptKnob::same(const std::string& read, const std::string& wanted) const {
  if (read == interrupt_gone) return true;
  const auto now = parse_cpulist(read);
  const auto cpus = parse_cpulist(wanted);
  return now && cpus && *now == *cpus;
}

bool InterruptKnob::accepts(const std::string& read, const std::string& wanted) const {
  return refused_.has_value() || same(read, wanted);
}

Result<std::string> InterruptKnob::snapshot() {
  const auto now = read();
  if (!now) return now.error();
  if (*now == interrupt_gone) return std::string();
  std::string text = *now;
  for (const std::string& name : handlers(directory_)) text += (text == *now ? ' ' : name_end) + name;
  return text;
}

Status InterruptKnob::reconcile(const std::string& value) {
  const auto now = read();
  if (!now) return now.error();
  return same(*now, value) ? done() : write(value);
}

// Where nothing differs nothing is written: what the kernel placed itself refuses even that.
Status InterruptKnob::restore(const std::string& snapshot) {
  if (snapshot.empty()) return done();
  const auto cpus = interrupt_cpus(snapshot);
  if (!cpus) {
    return Error{ErrorKind::Input, "the journal has the CPUs '" + cpus_in(snapshot) + "', expected a list such as 0-3",
                 0};
  }
  const std::string found = format_cpulist(*cpus);
  const auto now = read();
  if (!now) return now.error();
  if (same(*now, found) || !is_same_interrupt(snapshot, handlers(directory_))) return done();
  Status written = write_command(file(), found + "\n");
  if (!written && written.error().code == EINVAL) {
    return written.error().wrap("none of its CPUs is online; bring one online and restore again");
  }
  if (!written) return written;
  const auto after = read();
  if (!after) return after.error();
  if (same(*after, found)) return done();
  return Error{ErrorKind::Io,
               file().string() + ": the agent restored '" + found + "', but the kernel reports '" + *after + "'", 0};
}

}  // namespace osml
