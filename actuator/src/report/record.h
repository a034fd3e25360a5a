// The flight recorder (`run --record FILE`): every observation with the decision that answered it, one JSON line each,
// `{"observation": ..., "decision": ... or null}`. Both stand as they were on the wire, so that a replay sees what the
// policy saw. Wraps the source of decisions, because that is where both are at hand.
#pragma once

#include "client/decision_client.h"
#include "report/json_lines.h"

namespace osml {

class Recorder : public DecisionSource {
 public:
  // `source` must outlive the recorder.
  Recorder(DecisionSource& source, fs::path file) : source_(&source), lines_(std::move(file), 0) {}
  Answer ask(const Observation& observation) override;

 private:
  DecisionSource* source_;
  JsonLines lines_;
  bool broken_ = false;  // a full disk is told once; the node is managed on
};

}  // namespace osml
