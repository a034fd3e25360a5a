// Clock: scaling_max_freq of a cpufreq policy. The clock belongs to CPUs and not to a service: a policy is a domain of
// CPUs with one limit. Which limit a domain gets from its services is decided in plan/clocks.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpuset.h"
#include "base/knob.h"
#include "config/config.h"

namespace osml {

// What stands in the place of a service where a step, an error or the journal names a domain: "cpufreq/policy4". No
// service has a slash in its name.
bool is_clock_part(std::string_view name);

struct ClockDomain {
  std::string part;  // "cpufreq/policy4"
  CpuSet cpus;       // those of its CPUs that may be handed out
};

// The domains that have usable CPUs, in the order of their numbers. One with a CPU outside of `allowed` (absent = all
// are allowed) is left alone. The error says why there is none.
Result<std::vector<ClockDomain>> find_clock_domains(const Roots& roots, const CpuSet& usable,
                                                    const std::optional<CpuSet>& allowed);

// A policy without online CPUs stays, and each of its files answers EBUSY; older kernels remove it.
bool is_clock_offline(const Error& error);

// Values are MHz; "offline" while no CPU of the domain is online: there is nothing to set then. Snapshots are the
// file's text, in kHz.
class ClockKnob : public Knob {
 public:
  ClockKnob(const Roots& roots, std::string_view part);
  [[nodiscard]] Aspect aspect() const override { return Aspect::Clock; }
  [[nodiscard]] std::string_view backend() const override { return "cpufreq"; }
  Status probe() override;
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  // The value, or the frequency of the driver's table that the kernel makes of it.
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override;
  // Less is well, too: firmware or a thermal limit holds the clock down, and lets it go without us.
  [[nodiscard]] bool accepts(const std::string& read, const std::string& wanted) const override;
  // Gone or Busy where no CPU of the domain is online: what cannot be read cannot be put back.
  Result<std::string> snapshot() override;
  // Busy while no CPU of the domain is online: the kernel keeps the limit until then.
  Status restore(const std::string& snapshot) override;
  // What somebody else wrote is set again. So is a limit that is held down, which changes nothing.
  Status reconcile(const std::string& value) override;

  enum class Reach {
    Now,     // what firmware and heat leave at the moment
    AsFound  // whatever these say
  };
  // The value to set for a limit of `mhz`: not below the least that hardware and operator allow, not above `found` (a
  // snapshot) or what can be reached. None where it would be no limit.
  Result<std::optional<std::string>> limit(std::uint64_t mhz, const std::string& found, Reach reach = Reach::Now);

  // kHz: the least that may be set; the driver's frequencies, ascending (none: any may be set); the nominal one.
  Result<std::uint64_t> least_khz() const;
  [[nodiscard]] std::vector<std::uint64_t> table_khz() const;
  [[nodiscard]] std::optional<std::uint64_t> nominal_khz(unsigned cpu) const;
  // "intel_pstate", "acpi-cpufreq", ...
  [[nodiscard]] std::string driver() const;

 private:
  [[nodiscard]] fs::path file() const { return directory_ / "scaling_max_freq"; }
  // What the kernel makes of a limit.
  [[nodiscard]] std::uint64_t settled(std::uint64_t khz) const;

  fs::path cpus_;
  fs::path directory_;
};

}  // namespace osml
