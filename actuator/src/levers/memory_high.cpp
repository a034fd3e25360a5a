#include "levers/memory_high.h"

#include <algorithm>
#include <cmath>

#include "base/kept_file.h"
#include "base/number.h"
#include "base/units.h"

namespace osml {

namespace {

constexpr double margin = 1.0 / 8;

Result<double> working_set_mib(const fs::path& group) {
  const auto current = read_number(group / "memory.current");
  if (!current) return current.error();
  const auto stat = read_text(group / "memory.stat");
  if (!stat) return stat.error();
  return std::max(0.0, static_cast<double>(*current) -
                           static_cast<double>(keyed_number(*stat, "inactive_file").value_or(0))) /
         bytes_per_mib;
}

}  // namespace

Result<std::string> MemoryHigh::read() {
  const auto text = read_text(file());
  if (!text) return text.error();
  if (*text == "max") return std::string();
  const auto bytes = parse_unsigned(*text);
  if (!bytes) return Error{ErrorKind::Io, file().string() + " contains '" + *text + "', expected bytes or max", 0};
  return format_number(static_cast<double>(*bytes) / bytes_per_mib);
}

Status MemoryHigh::write(const std::string& value) {
  const auto wanted = parse_unsigned(value);
  if (!wanted || *wanted == 0) {
    return Error{ErrorKind::Input, "memory_mib '" + value + "' is not a whole number of MiB above 0", 0};
  }
  return write_command(file(), std::to_string(*wanted * 1024 * 1024) + "\n");
}

Status MemoryHigh::allows(const std::string& value) {
  const auto wanted = parse_double(value);
  const auto now = read();
  if (!wanted || !now) return wanted ? Status(now.error()) : done();
  const auto limit = parse_double(*now);
  if (limit && *wanted >= *limit) return done();
  const auto used = working_set_mib(directory());
  if (!used) return used.error();
  const double least = std::ceil(*used * (1 + margin));
  if (*wanted >= least) return done();
  return Error{ErrorKind::Input,
               "memory_mib " + value + " is below " + format_number(least) + " MiB, an eighth more than the " +
                   format_number(std::ceil(*used)) +
                   " MiB that the service works with now; give it more memory, or lower its use first",
               0};
}

}  // namespace osml
