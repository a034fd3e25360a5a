#include <algorithm>

#include "base/number.h"
#include "resctrl/knobs.h"

namespace osml::resctrl {

namespace {

constexpr const char* no_group = "absent";

Result<std::uint64_t> parse_number(const std::string& value, int base, const char* what) {
  const auto number = parse_unsigned(value, base);
  if (!number) return Error{ErrorKind::Input, std::string(what) + " '" + value + "' is not a number", 0};
  return std::uint64_t{*number};
}

// "0=ff;1=f0" of a line, without the resource's name.
std::string values_text(const SchemataLine& line) { return format_line(line).substr(line.resource.size() + 1); }

}  // namespace

Result<std::string> SchemataKnob::read() {
  const auto there = osml::present(site_.group / "schemata");
  if (!there) return there.error();
  if (!*there) return std::string();
  const auto schemata = read_schemata(site_.group, resources());
  if (!schemata) return schemata.error();
  const std::vector<std::string> names = resources();
  const SchemataLine* first = find_line(*schemata, names.front());
  for (const std::string& name : names) {
    const SchemataLine* line = find_line(*schemata, name);
    if (line->values != first->values) return values_text(*first) + "|" + values_text(*line);
  }
  const std::uint64_t value = first->values.begin()->second;
  const bool uniform =
      std::all_of(first->values.begin(), first->values.end(), [&](const auto& entry) { return entry.second == value; });
  if (!uniform) return values_text(*first);
  return values_text({first->resource, {{0, value}}}).substr(2);  // without "0="
}

Status SchemataKnob::write(const std::string& value) {
  const auto number = parse(value);
  if (!number) return number.error();
  const auto root = read_schemata(site_.roots.resctrl, resources());  // domains come and go with their CPUs
  if (!root) return root.error();
  std::vector<SchemataLine> lines;
  for (const std::string& name : resources()) {
    lines.push_back(*find_line(*root, name));
    for (auto& [id, stored] : lines.back().values) stored = *number;
  }
  return command(lines);
}

// One write for all lines: the kernel takes either all of them or none. What was stored may be read back a moment
// later on trees that user space serves.
Status SchemataKnob::command(const std::vector<SchemataLine>& lines) {
  std::string text;
  for (const SchemataLine& line : lines) text += format_line(line) + "\n";
  const Status written = write_command(site_.group / "schemata", text);
  if (!written) {
    Error error = written.error();
    error.message += last_status(site_.roots.resctrl);
    return error;
  }
  const auto stored = read_schemata(site_.group, root_resources(site_.roots.resctrl));
  if (!stored) return stored.error();
  for (const SchemataLine& line : lines) {
    const SchemataLine* now = find_line(*stored, line.resource);
    for (const auto& [id, value] : line.values) {
      const auto found = now == nullptr ? line.values.end() : now->values.find(id);
      if (now != nullptr && found != now->values.end() && same_value(found->second, value)) continue;
      return Error{ErrorKind::Io, (site_.group / "schemata").string() + ": the agent wrote '" + format_line(line) +
                                      "', but the kernel reports '" + (now == nullptr ? "nothing" : format_line(*now)) +
                                      "'" + last_status(site_.roots.resctrl)};
    }
  }
  return done();
}

Result<std::string> SchemataKnob::snapshot() {
  const auto there = osml::present(site_.group / "schemata");
  if (!there) return there.error();
  if (!*there) return std::string(no_group);
  const auto schemata = read_schemata(site_.group, resources());
  if (!schemata) return schemata.error();
  std::string text;
  for (const std::string& name : resources()) text += format_line(*find_line(*schemata, name)) + "\n";
  return text;
}

Status SchemataKnob::restore(const std::string& snapshot) {
  if (snapshot == no_group) return done();
  const auto there = osml::present(site_.group / "schemata");
  if (!there) return there.error();
  if (!*there) return done();
  auto lines = parse_schemata(snapshot);
  if (!lines) return lines.error();
  const auto now = read_schemata(site_.group, resources());
  if (!now) return now.error();
  for (SchemataLine& line : *lines) {  // a domain that went offline meanwhile cannot be put back
    const SchemataLine* online = find_line(*now, line.resource);
    std::erase_if(line.values, [&](const auto& entry) { return !online || !online->values.contains(entry.first); });
  }
  std::erase_if(*lines, [](const SchemataLine& line) { return line.values.empty(); });
  return lines->empty() ? done() : command(*lines);
}

Status WaysKnob::probe() {
  if (site().info.l3) return done();
  return Error{ErrorKind::Unsupported,
               "the L3 cache cannot be partitioned here: no info/L3 below " + site().roots.resctrl.string(), 0};
}

std::vector<std::string> WaysKnob::resources() const {
  return site().info.l3 ? site().info.l3->resources : std::vector<std::string>{"L3"};
}

Result<std::uint64_t> WaysKnob::parse(const std::string& value) const { return parse_number(value, 16, "way_mask"); }

bool WaysKnob::same(const std::string& read, const std::string& wanted) const {
  const auto a = parse(read);
  const auto b = parse(wanted);
  return a && b && *a == *b;
}

Status MbaKnob::probe() {
  if (site().info.mb) return done();
  return Error{ErrorKind::Unsupported,
               "memory bandwidth cannot be throttled here: no info/MB below " + site().roots.resctrl.string(), 0};
}

Result<std::uint64_t> MbaKnob::parse(const std::string& value) const { return parse_number(value, 10, "mba"); }

bool MbaKnob::same(const std::string& read, const std::string& wanted) const {
  const auto a = parse(read);
  const auto b = parse(wanted);
  return a && b && same_value(*a, *b);
}

bool MbaKnob::same_value(std::uint64_t read, std::uint64_t wanted) const {
  if (!site().info.mb) return read == wanted;
  const BandwidthInfo& mb = *site().info.mb;
  const std::uint64_t stored = rounded(mb, static_cast<unsigned>(wanted));
  if (read == stored) return true;
  // Some kernels take MB/s as they are, some round them up.
  if (mb.unit == BandwidthUnit::Mbps && mb.granularity > 1) {
    return read == (wanted + mb.granularity - 1) / mb.granularity * mb.granularity;
  }
  // Fine-grained percentages (Arm) end at the nearest hardware step, one off at most.
  const bool fine = mb.unit == BandwidthUnit::Percent && mb.granularity < 10;
  return fine && (read + 1 == stored || stored + 1 == read);
}

}  // namespace osml::resctrl
