// What the loop needs of the machine; the actuator in the real agent, a fake in the loop's tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apply/actuator.h"
#include "base/result.h"
#include "domain/types.h"

namespace osml {

class Machine {
 public:
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  virtual ~Machine() = default;

  // The meaning of each is written at the Actuator's function of the same name.
  [[nodiscard]] virtual const Platform& platform() const = 0;
  [[nodiscard]] virtual const std::map<std::string, std::string>& missing() const = 0;
  [[nodiscard]] virtual const std::vector<Place>& places() const = 0;
  [[nodiscard]] virtual InterruptReport interrupts() const { return {}; }
  virtual Result<std::vector<Assignment>> read() = 0;
  // `held`: what a dry run supposes to be in force.
  virtual Outcome apply(const Decision& decision, bool dry_run, const std::vector<Assignment>& held) = 0;
  virtual Status look() = 0;
  virtual Status reconcile() = 0;
  virtual Status restore() = 0;
  [[nodiscard]] virtual Decision even_decision() const = 0;
};

class ActuatorMachine : public Machine {
 public:
  explicit ActuatorMachine(Actuator& actuator) : actuator_(&actuator) {}
  [[nodiscard]] const Platform& platform() const override { return actuator_->platform(); }
  [[nodiscard]] const std::map<std::string, std::string>& missing() const override { return actuator_->missing(); }
  [[nodiscard]] const std::vector<Place>& places() const override { return actuator_->places(); }
  [[nodiscard]] InterruptReport interrupts() const override { return actuator_->interrupts(); }
  Result<std::vector<Assignment>> read() override { return actuator_->read(); }
  Outcome apply(const Decision& decision, bool dry_run, const std::vector<Assignment>& held) override {
    return actuator_->apply(decision, dry_run, held);
  }
  Status look() override { return actuator_->look(); }
  Status reconcile() override { return actuator_->reconcile(); }
  Status restore() override { return actuator_->restore(); }
  [[nodiscard]] Decision even_decision() const override { return actuator_->even_decision(); }

 private:
  Actuator* actuator_;
};

}  // namespace osml
