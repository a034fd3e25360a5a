#include "levers/irq.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace osml {

namespace {

constexpr std::string_view irq_prefix = "irq/";
constexpr const char* interrupt_gone = "gone";
constexpr char handler_end = '/';  // no name of a directory has one

bool is_irq_number(std::string_view text) {
  constexpr std::size_t most_digits = 9;
  return !text.empty() && text.size() <= most_digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The kernel makes a directory for each handler that has a name of its own. A name may have any bytes: in the journal
// and in a log there are none that JSON or a terminal has trouble with.
std::vector<std::string> handlers(const fs::path& directory) {
  auto names = list_subdirectories(directory);
  if (!names) return {};
  for (std::string& name : *names) {
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  }
  return std::move(*names);
}

bool is_for_nobody(const fs::path& file) {
  struct stat facts {};
  return ::stat(file.c_str(), &facts) == 0 && (facts.st_mode & S_IWUSR) == 0;
}

fs::path irq_directory_of(const Roots& roots, std::string_view part) {
  return interrupt_directory(roots) / std::string(part.substr(std::min(part.size(), irq_prefix.size())));
}

std::string found_cpus_in(const std::string& snapshot) { return snapshot.substr(0, snapshot.find(' ')); }

}  // namespace

bool is_interrupt_part(std::string_view name) {
  return name.starts_with(irq_prefix) && is_irq_number(name.substr(irq_prefix.size()));
}

fs::path interrupt_directory(const Roots& roots) { return roots.irq.empty() ? roots.proc / "irq" : roots.irq; }

Result<std::vector<Interrupt>> list_interrupts(const Roots& roots) {
  const fs::path all = interrupt_directory(roots);
  const auto numbers = list_subdirectories(all);
  if (!numbers) return numbers.error();
  std::vector<Interrupt> used;
  for (const std::string& number : *numbers) {
    auto names = is_irq_number(number) ? handlers(all / number) : std::vector<std::string>();
    if (names.empty()) continue;
    const bool fixed = is_for_nobody(all / number / "smp_affinity_list");
    used.push_back({std::string(irq_prefix) + number, std::move(names), fixed});
  }
  return used;
}

std::optional<CpuSet> interrupt_cpus(const std::string& snapshot) {
  const auto cpus = parse_cpulist(found_cpus_in(snapshot));
  return cpus && !cpus->empty() ? std::optional(*cpus) : std::nullopt;
}

std::vector<std::string> interrupt_handlers(const Roots& roots, std::string_view part) {
  return handlers(irq_directory_of(roots, part));
}

bool is_same_interrupt(const std::string& snapshot, const std::vector<std::string>& names) {
  const std::size_t blank = snapshot.find(' ');
  if (blank == std::string::npos || names.empty()) return true;
  const std::string before = handler_end + snapshot.substr(blank + 1) + handler_end;
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return before.find(handler_end + name + handler_end) != std::string::npos;
  });
}

std::string renamed(const std::string& snapshot, const std::vector<std::string>& names) {
  std::string text = found_cpus_in(snapshot);
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? ' ' : handler_end) + names[i];
  return text;
}

bool may_move_later(const Error& refused) {
  return refused.code == ENOSPC || refused.code == EBUSY || refused.code == EAGAIN;
}

InterruptKnob::InterruptKnob(const Roots& roots, std::string_view part) : directory_(irq_directory_of(roots, part)) {}

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
  const Status written = write_command(file(), format_cpulist(*cpus) + "\n");
  // EIO and EPERM: the kernel places it itself. EINVAL and others: the chip can't. One interrupt holds no decision up.
  if (!written && written.error().kind != ErrorKind::Gone) refused_ = written.error();
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
  return renamed(*now, handlers(directory_));
}

Status InterruptKnob::reconcile(const std::string& value) {
  const auto now = read();
  if (!now) return now.error();
  return same(*now, value) ? done() : write(value);
}

// Where nothing differs nothing is written: what the kernel placed itself refuses even that.
Status InterruptKnob::restore(const std::string& snapshot) {
  refused_.reset();
  if (snapshot.empty()) return done();
  const auto cpus = interrupt_cpus(snapshot);
  if (!cpus) {
    return Error{ErrorKind::Input,
                 "the journal has the CPUs '" + found_cpus_in(snapshot) + "', expected a list such as 0-3", 0};
  }
  const std::string found = format_cpulist(*cpus);
  const auto now = read();
  if (!now) return now.error();
  if (same(*now, found) || !is_same_interrupt(snapshot, handlers(directory_))) return done();
  Status written = write_command(file(), found + "\n");
  if (!written && (written.error().code == EINVAL || may_move_later(written.error()))) {
    const bool offline = written.error().code == EINVAL;
    const char* why = offline ? "none of its CPUs is online; bring one online and restore again"
                              : "its CPUs take no interrupt at the moment; restore again";
    refused_ = Error{ErrorKind::Busy, written.error().wrap(why).message, EBUSY};
    return *refused_;
  }
  if (!written) return written;
  const auto after = read();
  if (!after) return after.error();
  if (same(*after, found)) return done();
  return Error{ErrorKind::Io,
               file().string() + ": the agent restored '" + found + "', but the kernel reports '" + *after + "'", 0};
}

}  // namespace osml
