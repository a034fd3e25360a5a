// The plugin's end of the gate.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

#include "base/files.h"
#include "gate/question.h"

namespace osml {

// Whom the plugin asks; the agent, or a test.
class ContainerAnswers {
 public:
  ContainerAnswers() = default;
  ContainerAnswers(const ContainerAnswers&) = delete;
  ContainerAnswers& operator=(const ContainerAnswers&) = delete;
  virtual ~ContainerAnswers() = default;
  // None where no answer came in time. The number of the question is given here.
  virtual std::optional<ContainerAnswer> ask(ContainerQuestion question) = 0;
};

class GateClient : public ContainerAnswers {
 public:
  // Binds state_dir/nri.sock; Busy where another plugin has it.
  static Result<std::unique_ptr<GateClient>> open(const fs::path& state_dir, double patience_s);
  ~GateClient() override;

  // Readable where the agent told something.
  [[nodiscard]] int fd() const { return fd_.get(); }
  std::optional<ContainerAnswer> ask(ContainerQuestion question) override;
  // The runtime may wait less long than was hoped for.
  void wait_at_most(double seconds) { patience_s_ = std::min(patience_s_, seconds); }
  // The last that the agent told since this was called last.
  std::optional<CpusInForce> told();

 private:
  GateClient(fs::path directory, Fd fd, double patience_s)
      : directory_(std::move(directory)), fd_(std::move(fd)), patience_s_(patience_s) {}
  // One datagram; an answer is returned, the rest is kept.
  std::optional<ContainerAnswer> read_one();

  fs::path directory_;
  Fd fd_;
  double patience_s_;
  std::uint64_t number_ = 0;
  std::optional<CpusInForce> told_;
};

}  // namespace osml
