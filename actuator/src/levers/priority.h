// Real-time priority: SCHED_RR on every thread of the service, so that it runs before all normal tasks. Threads born
// meanwhile inherit their creator's policy, or follow in reconcile().
#pragma once

#include <optional>

#include "base/knob.h"
#include "config/config.h"

namespace osml {

// From here on the kernel's own threads (interrupts, migration) would have to wait for a service.
inline constexpr unsigned least_kernel_priority = 50;

// How long a thread of SCHED_RR runs before the next of the same priority, ms; none where the kernel does not tell.
std::optional<double> round_robin_slice_ms(const Roots& roots);

// Values: the priority of the threads; "" where no thread is in SCHED_RR, "none" while the service has no threads, a
// list such as "-,10" where they differ. Threads in SCHED_DEADLINE run before all others already and are left alone.
// Snapshots: one line a thread, "<tid> <start time> <policy> <priority> <nice>", as the kernel's numbers; the start
// time tells a thread from a later one with the same id.
class PriorityKnob : public Knob {
 public:
  PriorityKnob(Roots roots, Match match) : roots_(std::move(roots)), match_(std::move(match)) {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Priority; }
  [[nodiscard]] std::string_view backend() const override { return "sched"; }
  // Only with the kernel's own /proc, CAP_SYS_NICE, a kernel that keeps some time for normal tasks, and, on cgroup v1,
  // a group that has real-time budget.
  Status probe() override;
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override {
    return read == wanted || read == "none";
  }
  Result<std::string> snapshot() override;
  // Threads born since get what their process had, else SCHED_OTHER.
  Status restore(const std::string& snapshot) override;
  Status reconcile(const std::string& value) override { return write(value); }

 private:
  Roots roots_;
  Match match_;
};

}  // namespace osml
