// Interrupts: smp_affinity_list of a number in /proc/irq. An interrupt belongs to a device and not to a service. Where
// it goes follows from the CPUs of services: plan/interrupts.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpuset.h"
#include "base/knob.h"
#include "config/config.h"

namespace osml {

// What stands in the place of a service where a step, an error or the journal names an interrupt: "irq/24". No service
// has a slash in its name.
bool is_interrupt_part(std::string_view name);

struct Interrupt {
  std::string part;                // "irq/24"
  std::vector<std::string> names;  // of those who handle it, as in /proc/interrupts
  bool fixed = false;              // its file is read-only: a timer, or one that the kernel places itself
};

// roots.irq, or else irq below roots.proc.
fs::path interrupt_directory(const Roots& roots);
// Those that somebody handles.
Result<std::vector<Interrupt>> list_interrupts(const Roots& roots);

// What a snapshot of an interrupt holds: its CPUs, and who handled it.
std::optional<CpuSet> interrupt_cpus(const std::string& snapshot);
// Who handles an interrupt now; nobody where it has gone.
std::vector<std::string> interrupt_handlers(const Roots& roots, std::string_view part);
// Whether those who handle the number now are those of the snapshot: a number goes to another device when its own has
// gone. A device that nobody uses at the moment keeps its numbers.
bool is_same_interrupt(const std::string& snapshot, const std::vector<std::string>& names);

// The snapshot of the same interrupt whose handlers have other names now.
std::string renamed(const std::string& snapshot, const std::vector<std::string>& names);
// Why the kernel did not move an interrupt may end: no vector was left, or the device was busy. All else stays so.
bool may_move_later(const Error& refused);

// Values are lists of CPUs; "gone" when the interrupt has gone: there is nothing to set then. What the kernel has in
// force is one or a few of these CPUs, of its own choice.
class InterruptKnob : public Knob {
 public:
  InterruptKnob(const Roots& roots, std::string_view part);
  [[nodiscard]] Aspect aspect() const override { return Aspect::Cpus; }
  [[nodiscard]] std::string_view backend() const override { return "irq"; }
  Status probe() override;
  Result<std::string> read() override;
  // Done also where the kernel refuses for a reason that is no decision's fault: see refused().
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override;
  [[nodiscard]] bool accepts(const std::string& read, const std::string& wanted) const override;
  // Also of the last restore(), which says Busy then: see may_move_later().
  [[nodiscard]] std::optional<Error> refused() const override { return refused_; }
  // Empty where it has gone: nothing is to be put back then.
  Result<std::string> snapshot() override;
  Status restore(const std::string& snapshot) override;
  Status reconcile(const std::string& value) override;

 private:
  [[nodiscard]] fs::path file() const { return directory_ / "smp_affinity_list"; }

  fs::path directory_;
  std::optional<Error> refused_;
};

}  // namespace osml
