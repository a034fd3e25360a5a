// CPUs that jobs of the cluster may count on: the lowest tenth of what decisions left to them in the last five minutes,
// so that a short dip does not move it and a short peak does not raise it. It moves in steps of a twentieth of the
// machine, or to 0.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace osml {

class JobsCpu {
 public:
  // Five minutes, or sixty intervals where these are longer.
  explicit JobsCpu(double interval_s);
  // `cpus`: none where nothing is known of this interval. `refused`: services miss their targets, so that no further
  // job shall come.
  void see(std::optional<double> cpus, double machine_cpus, bool refused, double now_s);
  // Millicpus, whole hundreds; none until a fifth of the window was seen.
  [[nodiscard]] std::optional<std::uint64_t> told() const { return told_; }

 private:
  static constexpr std::size_t slots = 60;
  struct Slot {
    std::int64_t number = -1;
    double least = 0;
  };
  [[nodiscard]] std::optional<double> low(std::int64_t newest) const;

  double slot_s_;
  std::array<Slot, slots> ring_;
  std::optional<std::uint64_t> told_;
};

}  // namespace osml
