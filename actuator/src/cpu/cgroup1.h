// CPU knobs of cgroup v1. Unlike v2, a child's CPUs must stay inside its parent's at every moment and the kernel
// forgets CPUs that go offline; quota and period are two files.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/cpuset.h"
#include "base/knob.h"
#include "config/config.h"

namespace osml {

// The service's directory of a v1 controller; `why` nobody can tell whether there is one.
fs::path cgroup1_of(const Roots& roots, const char* controller, const Match& match, Status& why);

// cpuset.cpus of the group and of every group below it, which all get the same set. Snapshots: "<path below>=<list>"
// a line, the group itself as ".".
class Cgroup1Cpuset : public Knob {
 public:
  Cgroup1Cpuset(const Roots& roots, const Match& match) : Cgroup1Cpuset(roots, match, "cpuset.cpus") {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Cpus; }
  [[nodiscard]] std::string_view backend() const override { return "cgroup1"; }
  Status probe() override;
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override;
  Result<std::string> snapshot() override;
  Status restore(const std::string& snapshot) override;

 protected:
  // Of another set of the controller: the files have the same form and the same rules.
  Cgroup1Cpuset(const Roots& roots, const Match& match, const char* file);
  [[nodiscard]] const fs::path& directory() const { return directory_; }
  // Of a file that each group has: the lines of a snapshot, and what such lines say of the groups that are there.
  Result<std::string> lines_of(const char* file);
  Result<std::map<fs::path, std::string>> groups_of(std::string_view lines);

 private:
  Status set_tree(const std::map<fs::path, CpuSet>& wanted);
  Status put_set(const fs::path& group, const CpuSet& set);

  const char* file_;
  fs::path directory_;     // empty where the service has no v1 group
  Status found_ = done();  // why nobody can tell whether it has
  std::string path_;
};

// cpu.cfs_quota_us and cpu.cfs_period_us. Snapshots: "<quota> <period>", quota -1 without limit.
class Cgroup1Quota : public Knob {
 public:
  Cgroup1Quota(const Roots& roots, const Match& match);
  [[nodiscard]] Aspect aspect() const override { return Aspect::Quota; }
  [[nodiscard]] std::string_view backend() const override { return "cgroup1"; }
  Status probe() override;
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override;
  Result<std::string> snapshot() override;
  Status restore(const std::string& snapshot) override;

 private:
  Status set(long long quota_us, long long period_us);

  fs::path directory_;     // empty where the service has no v1 group
  Status found_ = done();  // why nobody can tell whether it has
  std::string path_;
};

// cpu.shares, 1024 for v2's weight of 100. Snapshots are the file's text.
class Cgroup1Weight : public Knob {
 public:
  Cgroup1Weight(const Roots& roots, const Match& match);
  [[nodiscard]] Aspect aspect() const override { return Aspect::Weight; }
  [[nodiscard]] std::string_view backend() const override { return "cgroup1"; }
  Status probe() override;
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override;
  Result<std::string> snapshot() override;
  Status restore(const std::string& snapshot) override;

 private:
  fs::path directory_;     // empty where the service has no v1 group
  Status found_ = done();  // why nobody can tell whether it has
  std::string path_;
};

}  // namespace osml
