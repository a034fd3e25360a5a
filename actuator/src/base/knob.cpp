#include "base/knob.h"

namespace osml {

std::string_view name_of(Aspect aspect) {
  switch (aspect) {
    case Aspect::Group:
      return "group";
    case Aspect::Ways:
      return "way_mask";
    case Aspect::Mba:
      return "mba";
    case Aspect::Tasks:
      return "tasks";
    case Aspect::Cpus:
      return "cpus";
    case Aspect::Quota:
      return "cpu_quota";
    case Aspect::Weight:
      return "cpu_weight";
    case Aspect::Memory:
      return "memory_mib";
    case Aspect::Disk:
      return "disk_iops";
    case Aspect::Priority:
      return "realtime_priority";
    case Aspect::Clock:
      return "frequency_mhz";
    case Aspect::Nodes:
      return "memory_nodes";
  }
  return "unknown";
}

Status Knob::allows(const std::string& /*value*/) { return done(); }

Status Knob::reconcile(const std::string& /*value*/) { return done(); }

}  // namespace osml
