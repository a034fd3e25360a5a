#include "resctrl/group.h"
#include "resctrl/knobs.h"

namespace osml::resctrl {

namespace {

constexpr const char* present = "present";
constexpr const char* absent = "absent";

}  // namespace

Status GroupKnob::probe() {
  if (site_.info.allocates() || site_.info.monitor) return done();
  return Error{ErrorKind::Unsupported, site_.roots.resctrl.string() + " offers neither allocation nor monitoring", 0};
}

Result<std::string> GroupKnob::read() { return std::string(osml::exists(site_.group) ? present : ""); }

Status GroupKnob::write(const std::string& value) {
  if (value.empty()) return remove_group(site_.group);
  const auto made = make_group(site_.roots.resctrl, site_.group);
  if (!made) return made.error();
  return done();
}

Result<std::string> GroupKnob::snapshot() { return std::string(osml::exists(site_.group) ? present : absent); }

Result<std::string> GroupKnob::origin() { return std::string(absent); }

// A group that was there before us and has gone since is somebody else's decision: it is not made again.
Status GroupKnob::restore(const std::string& snapshot) {
  return snapshot == absent ? remove_group(site_.group) : done();
}

}  // namespace osml::resctrl
