// The throttle of a machine without MBA: a budget in MB/s, kept in a small file of the agent's own (roots.budgets),
// which the daemon's regulator enforces. The file outlives the agent, so that a restart goes on with it.
#pragma once

#include <optional>
#include <string>

#include "base/knob.h"
#include "config/config.h"
#include "resctrl/info.h"

namespace osml {

// Why the software regulator cannot work with what the machine counts; none where it can.
std::optional<std::string> regulator_obstacle(const Roots& roots, const std::optional<resctrl::Info>& info);

class RegulatorKnob : public Knob {
 public:
  RegulatorKnob(const Roots& roots, std::string service, const Match& match, std::optional<resctrl::Info> info);

  [[nodiscard]] Aspect aspect() const override { return Aspect::Mba; }
  [[nodiscard]] std::string_view backend() const override { return "regulator"; }
  Status probe() override;
  Result<std::string> read() override;
  Status write(const std::string& value) override;
  [[nodiscard]] bool same(const std::string& read, const std::string& wanted) const override { return read == wanted; }
  Result<std::string> snapshot() override { return read(); }
  // Also lets a group go on that an agent left standing still.
  Status restore(const std::string& snapshot) override;

 private:
  [[nodiscard]] fs::path file() const { return roots_.budgets / service_; }

  Roots roots_;
  std::string service_;
  Match match_;
  std::optional<resctrl::Info> info_;
};

}  // namespace osml
