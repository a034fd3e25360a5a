// Jobs that run only when nobody else wants the CPU: cpu.idle of the service's own cgroup v2 group. The kernel refuses
// cpu.weight while cpu.idle is 1, and forgets the weight when it becomes 0 again, so that one knob has both files: it
// stands in for the weight of a job.
#pragma once

#include "cpu/cgroup2.h"

namespace osml {

inline constexpr const char* idle_word = "idle";

// Values are "idle" or a weight; a snapshot is both files in this form. Kernels before 5.15 have no cpu.idle: there the
// least weight stands for it.
class CpuIdle : public Cgroup2Knob {
 public:
  CpuIdle(const Roots& roots, const Match& match) : Cgroup2Knob(roots, match, "cpu.weight", "cpu") {}
  [[nodiscard]] std::string_view backend() const override { return "cgroup2-idle"; }
  [[nodiscard]] Aspect aspect() const override { return Aspect::Weight; }
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override { return read == wanted; }
  Result<std::string> snapshot() override { return read(); }
  Status restore(const std::string& snapshot) override;

 private:
  [[nodiscard]] fs::path idle_file() const { return directory() / "cpu.idle"; }
  [[nodiscard]] bool has_idle() const { return osml::exists(idle_file()); }
};

}  // namespace osml
