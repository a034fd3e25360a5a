// Memory: memory.high of the service's own cgroup v2 group. The kernel reclaims from a group above it and slows its
// threads down; it kills nothing.
#pragma once

#include "cpu/cgroup2.h"

namespace osml {

// Values are MiB. Snapshots are the file's text ("max", or bytes).
class MemoryHigh : public Cgroup2Knob {
 public:
  MemoryHigh(const Roots& roots, const Match& match) : Cgroup2Knob(roots, match, "memory.high", "memory") {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Memory; }
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override { return read == wanted; }
  // No lower limit than the working set and an eighth of it: what a service works with must not be reclaimed over and
  // over. The working set is memory.current without inactive_file, as the kubelet counts it. A limit that is in force,
  // or that is raised, is always allowed.
  Status allows(const std::string& value) override;
};

}  // namespace osml
