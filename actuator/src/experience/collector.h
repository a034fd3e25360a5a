// Makes experiences of what passes by: wraps the source of decisions, because that is where an observation and the
// decision on it are at hand, and where the next observation says what became of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/decision_client.h"
#include "experience/buffer.h"

namespace osml {

class ExperienceCollector : public DecisionSource {
 public:
  // Both must outlive the collector.
  ExperienceCollector(DecisionSource& source, ExperienceBuffer& buffer) : source_(&source), buffer_(&buffer) {}

  // Keeps the decision of the turn before where the machine had it from then until now. The policy's state is left out:
  // it is opaque, and it can be larger than all the rest.
  Answer ask(const Observation& observation) override;
  // The decision of the turn before, asked for by another collector, counts as this one's.
  void take_over(ExperienceCollector& other) { open_ = std::exchange(other.open_, std::nullopt); }

 private:
  struct Open {
    std::uint64_t seq;
    std::shared_ptr<const std::string> observation;
    std::string decision;  // as it came over the wire
  };
  void complete(const Observation& observation, std::shared_ptr<const std::string> text);

  DecisionSource* source_;
  ExperienceBuffer* buffer_;
  std::optional<Open> open_;
};

}  // namespace osml
