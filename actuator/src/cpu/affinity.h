// CPU sets without cgroups: sched_setaffinity on every thread of the service. Threads born meanwhile inherit their
// creator's mask, which may still be the old one, so passes are repeated until one finds nothing to do.
#pragma once

#include "base/cpuset.h"
#include "base/knob.h"
#include "config/config.h"

namespace osml {

// Values: the union of the threads' masks, as a CPU list; "" while the service has no threads. Snapshots: one line a
// thread, "<tid> <start time> <list>"; the start time tells a thread from a later one with the same id.
class AffinityKnob : public Knob {
 public:
  AffinityKnob(Roots roots, Match match) : roots_(std::move(roots)), match_(std::move(match)) {}
  [[nodiscard]] Aspect aspect() const override { return Aspect::Cpus; }
  [[nodiscard]] std::string_view backend() const override { return "affinity"; }
  // Only with the kernel's own /proc: the ids of a simulated node's tasks are other processes here.
  Status probe() override;
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  // A service without threads needs nothing now; reconcile() takes those that come.
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override;
  Result<std::string> snapshot() override;
  // Threads born since get the mask of their process, else any CPU.
  Status restore(const std::string& snapshot) override;
  // Narrows threads that run elsewhere; a thread that pinned itself inside the set is left alone.
  Status reconcile(const std::string& value) override;

 private:
  Status confine(const CpuSet& cpus, bool exactly);

  Roots roots_;
  Match match_;
};

}  // namespace osml
