#include "resctrl/group.h"
#include "resctrl/knobs.h"

namespace osml::resctrl {

namespace {

constexpr const char* made = "present";
constexpr const char* absent = "absent";

}  // namespace

Status GroupKnob::probe() {
  if (site_.info.allocates() || site_.info.monitor) return done();
  return Error{ErrorKind::Unsupported, site_.roots.resctrl.string() + " offers neither allocation nor monitoring", 0};
}

Result<std::string> GroupKnob::read() {
  const auto there = osml::present(site_.group);
  if (!there) return there.error();
  return std::string(*there ? made : "");
}

Status GroupKnob::write(const std::string& value) {
  if (value.empty()) return remove_group(site_.group);
  const auto fresh = make_group(site_.roots.resctrl, site_.group);
  return fresh ? done() : Status(fresh.error());
}

Result<std::string> GroupKnob::snapshot() {
  const auto there = osml::present(site_.group);
  if (!there) return there.error();
  if (!*there) return std::string(absent);
  if (!site_.info.allocates()) return std::string(made);
  const auto schemata = read_text(site_.group / "schemata");
  if (!schemata) return schemata.error();
  return std::string(made) + "\n" + *schemata;
}

Result<std::string> GroupKnob::origin() { return std::string(absent); }

// A group that the transaction removed is made again; its threads come back with their own setting.
Status GroupKnob::restore(const std::string& snapshot) {
  if (snapshot == absent) return remove_group(site_.group);
  const auto there = osml::present(site_.group);
  if (!there) return there.error();
  if (*there) return done();
  const auto again = make_group(site_.roots.resctrl, site_.group);
  if (!again) return again.error();
  const std::size_t end = snapshot.find('\n');
  if (end == std::string::npos) return done();
  const auto schemata = parse_schemata(std::string_view(snapshot).substr(end + 1));
  if (!schemata) return schemata.error();
  std::string command;
  for (const SchemataLine& line : *schemata) command += format_line(line) + "\n";
  return write_command(site_.group / "schemata", command);
}

}  // namespace osml::resctrl
