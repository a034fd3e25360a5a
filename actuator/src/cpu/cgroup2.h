// CPU knobs of cgroup v2: cpuset.cpus, cpu.max, cpu.weight of the service's own group. The kernel keeps what was
// asked for through CPU hot-plug and shows in cpuset.cpus.effective what it grants.
#pragma once

#include <utility>

#include "base/knob.h"
#include "config/config.h"

namespace osml {

// One file of a cgroup v2 directory. Snapshots are the file's text.
class Cgroup2Knob : public Knob {
 public:
  Cgroup2Knob(const Roots& roots, const Match& match, std::string file, std::string controller);
  [[nodiscard]] std::string_view backend() const override { return "cgroup2"; }
  Status probe() override;
  Result<std::string> snapshot() override;
  Status restore(const std::string& snapshot) override;

 protected:
  [[nodiscard]] const fs::path& root() const { return root_; }
  [[nodiscard]] const fs::path& directory() const { return directory_; }
  [[nodiscard]] fs::path file() const { return directory_ / file_; }
  // The error: nobody can tell whether the service has a v2 group.
  [[nodiscard]] const Status& reachable() const { return found_; }
  // How a value, or what was found, gets into the file; without a newline.
  virtual Status put(const std::string& text);

 private:
  [[nodiscard]] std::string how_to_enable() const;

  fs::path root_;
  fs::path directory_;     // empty where the service has no v2 group
  Status found_ = done();  // why nobody can tell whether it has
  std::string path_, file_, controller_;
};

class Cgroup2Cpuset : public Cgroup2Knob {
 public:
  Cgroup2Cpuset(const Roots& roots, const Match& match) : Cgroup2Knob(roots, match, "cpuset.cpus", "cpuset") {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Cpus; }
  Result<std::string> read() override;
  Result<std::string> in_force() override;
  // Error where the kernel grants less than was asked for (the parent group has fewer CPUs).
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override;
  // An empty set was "as the parent". Kernels up to 6.12 do not let a populated group go back to it: there the group
  // gets the parent's CPUs by name.
  Status restore(const std::string& snapshot) override;

 protected:
  Status put(const std::string& text) override;
  // Of another set of the controller: the files have the same form and the same rules.
  Cgroup2Cpuset(const Roots& roots, const Match& match, std::string file)
      : Cgroup2Knob(roots, match, std::move(file), "cpuset") {}
};

class Cgroup2Quota : public Cgroup2Knob {
 public:
  Cgroup2Quota(const Roots& roots, const Match& match) : Cgroup2Knob(roots, match, "cpu.max", "cpu") {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Quota; }
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override;
};

class Cgroup2Weight : public Cgroup2Knob {
 public:
  Cgroup2Weight(const Roots& roots, const Match& match) : Cgroup2Knob(roots, match, "cpu.weight", "cpu") {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Weight; }
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override { return read == wanted; }
};

}  // namespace osml
