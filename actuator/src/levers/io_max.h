// Disk: the random reads a second of the service, riops in io.max of its own cgroup v2 group, the same for each disk.
#pragma once

#include <map>

#include "cpu/cgroup2.h"

namespace osml {

// "8:0" of the disks that are limited: those that the operator names, else those of /sys/block that are hardware and
// cannot be taken out. Error where a named one does not exist.
Result<std::vector<std::string>> limited_disks(const Roots& roots);

// Values are reads a second. Snapshots: one line a disk, "8:0 100" or "8:0 max"; other keys of io.max are left alone.
class IoMax : public Cgroup2Knob {
 public:
  IoMax(const Roots& roots, const Match& match) : Cgroup2Knob(roots, match, "io.max", "io"), roots_(roots) {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Disk; }
  Status probe() override;
  // The disks' common limit; where they differ, one line a disk as in a snapshot.
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override { return read == wanted; }
  Result<std::string> snapshot() override;
  // A disk that has gone took its limit with it; one that came later gets no limit.
  Status restore(const std::string& snapshot) override;

 private:
  // Of every limited disk; "max" where it has no limit.
  Result<std::map<std::string, std::string>> limits();
  Status set(const std::string& disk, const std::string& limit);

  Roots roots_;
};

}  // namespace osml
