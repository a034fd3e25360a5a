// What the cluster is told about the targets. A state is told once it held for most of a minute, so that one bad
// interval changes nothing: bad and unclear news after half of the window, good news after nine tenths of it. Between
// the two the last news stays. A service that misses every other interval is told as missing its target, and stays so.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "kubernetes/facts.h"

namespace osml {

struct Verdict {
  Standing standing = Standing::NotManaged;
  std::set<std::string> services;
  std::string words;

  [[nodiscard]] bool bad() const { return standing == Standing::Missed || standing == Standing::Infeasible; }
};

class VerdictWindow {
 public:
  // A minute, or six intervals where these are longer.
  explicit VerdictWindow(double interval_s);

  void see(const ClusterFacts& facts, double now_s);
  // After a reload: what was told stands until there is other news. What was seen begins anew.
  void go_on(const VerdictWindow& before);
  // None until something held long enough.
  [[nodiscard]] const std::optional<Verdict>& told() const { return told_; }

 private:
  static constexpr std::size_t slots = 12;        // of the window
  static constexpr std::size_t kept = slots + 1;  // the newest one is not full yet
  struct Slot {
    std::int64_t number = -1;
    std::array<double, standings> seconds{};
    std::array<std::map<std::string, double>, standings> services;
  };
  [[nodiscard]] std::array<double, standings> sums(std::int64_t newest) const;
  [[nodiscard]] std::set<std::string> services_of(Standing standing, bool fresh, std::int64_t newest) const;

  double interval_s_;
  double window_s_;
  std::optional<double> last_s_;
  std::array<Slot, kept> ring_;
  std::string words_;  // of the last interval that was Infeasible
  std::optional<Verdict> told_;
};

}  // namespace osml
