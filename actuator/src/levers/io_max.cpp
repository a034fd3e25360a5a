#include "levers/io_max.h"

#include <algorithm>
#include <cerrno>

#include "base/number.h"

namespace osml {

namespace {

constexpr const char* unlimited = "max";

// "8:0", two numbers.
bool is_device(std::string_view text) {
  const std::size_t colon = text.find(':');
  return colon != std::string_view::npos && parse_unsigned(text.substr(0, colon)) &&
         parse_unsigned(text.substr(colon + 1));
}

// riops of every device that has a limit of some kind, from "8:0 rbps=max wbps=max riops=100 wiops=max".
std::map<std::string, std::string> parse_io_max(std::string_view text) {
  constexpr std::string_view key = " riops=";
  std::map<std::string, std::string> limits;
  for (const std::string_view line : split_lines(text)) {
    const std::size_t at = line.find(key);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = line.substr(at + key.size());
    limits[std::string(line.substr(0, line.find(' ')))] = std::string(rest.substr(0, rest.find(' ')));
  }
  return limits;
}

std::map<std::string, std::string> parse_snapshot(std::string_view text) {
  std::map<std::string, std::string> limits;
  for (const std::string_view line : split_lines(text)) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos || !is_device(line.substr(0, blank))) continue;
    const std::string limit(line.substr(blank + 1));
    if (limit == unlimited || parse_unsigned(limit)) limits[std::string(line.substr(0, blank))] = limit;
  }
  return limits;
}

std::string format(const std::map<std::string, std::string>& limits) {
  std::string text;
  for (const auto& [disk, limit] : limits) text += (text.empty() ? "" : "\n") + disk + " " + limit;
  return text;
}

bool is_fixed_hardware(const fs::path& disk) {
  const auto removable = read_number(disk / "removable");
  return osml::exists(disk / "device") && !(removable && *removable != 0);
}

}  // namespace

Result<std::vector<std::string>> limited_disks(const Roots& roots) {
  const fs::path block = roots.sysfs / "block";
  std::vector<std::string> names = roots.disks;
  if (names.empty()) {
    const auto all = list_directory(block);
    if (!all) return all.error();
    std::copy_if(all->begin(), all->end(), std::back_inserter(names),
                 [&](const std::string& name) { return is_fixed_hardware(block / name); });
  }
  std::vector<std::string> disks;
  for (const std::string& name : names) {
    const auto device = read_text(block / name / "dev");
    if (!device)
      return Error{ErrorKind::Unsupported, "levers.disks: there is no disk '" + name + "' in " + block.string(), 0};
    if (!is_device(*device)) {
      return Error{ErrorKind::Io, (block / name / "dev").string() + " contains '" + *device + "', expected MAJOR:MINOR",
                   0};
    }
    disks.push_back(*device);
  }
  if (disks.empty())
    return Error{ErrorKind::Unsupported, "no disk in " + block.string() + " is hardware; set levers.disks", 0};
  return disks;
}

Status IoMax::probe() {
  if (Status there = Cgroup2Knob::probe(); !there) return there;
  const auto disks = limited_disks(roots_);
  return disks ? done() : Status(disks.error());
}

Result<std::map<std::string, std::string>> IoMax::limits() {
  const auto disks = limited_disks(roots_);
  if (!disks) return disks.error();
  const auto text = read_text(file());
  if (!text) return text.error();
  const auto present = parse_io_max(*text);
  std::map<std::string, std::string> limits;
  for (const std::string& disk : *disks) {
    const auto found = present.find(disk);
    limits[disk] = found == present.end() ? unlimited : found->second;
  }
  return limits;
}

Result<std::string> IoMax::read() {
  const auto now = limits();
  if (!now) return now.error();
  const std::string& first = now->begin()->second;
  const bool equal = std::all_of(now->begin(), now->end(), [&](const auto& one) { return one.second == first; });
  if (!equal) return format(*now);
  return first == unlimited ? std::string() : first;
}

Status IoMax::set(const std::string& disk, const std::string& limit) {
  return write_command(file(), disk + " riops=" + limit + "\n");
}

Status IoMax::write(const std::string& value) {
  const auto wanted = parse_unsigned(value);
  if (!wanted || *wanted == 0) {
    return Error{ErrorKind::Input, "disk_iops '" + value + "' is not a whole number above 0", 0};
  }
  const auto disks = limited_disks(roots_);
  if (!disks) return disks.error();
  for (const std::string& disk : *disks) {
    if (Status written = set(disk, value); !written) return written.error().wrap("disk " + disk);
  }
  return done();
}

Result<std::string> IoMax::snapshot() {
  const auto now = limits();
  if (!now) return now.error();
  return format(*now);
}

Status IoMax::restore(const std::string& snapshot) {
  if (Status there = Cgroup2Knob::probe(); !there) {
    return there.error().kind == ErrorKind::Unsupported ? done() : there;
  }
  auto wanted = parse_snapshot(snapshot);
  if (const auto disks = limited_disks(roots_)) {
    for (const std::string& disk : *disks) wanted.emplace(disk, unlimited);
  }
  for (const auto& [disk, limit] : wanted) {
    const Status written = set(disk, limit);
    if (!written && written.error().code != ENODEV) return written.error().wrap("disk " + disk);
    if (!written) wanted.at(disk).clear();
  }
  const auto text = read_text(file());
  if (!text) return text.error();
  const auto present = parse_io_max(*text);
  for (const auto& [disk, limit] : wanted) {
    const auto found = present.find(disk);
    const std::string now = found == present.end() ? unlimited : found->second;
    if (limit.empty() || now == limit) continue;
    return Error{ErrorKind::Io,
                 file().string() + ": the agent restored riops=" + limit + " of disk " + disk +
                     ", but the kernel reports " + now,
                 0};
  }
  return done();
}

}  // namespace osml
