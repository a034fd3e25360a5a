// What a replay says: a line for each decision as it comes, or one JSON document, written as the decisions come: those
// of a night are not kept in memory.
#pragma once

#include <ostream>
#include <string>

#include "replay/replay.h"

namespace osml::cli {

class ReplayReport {
 public:
  struct Of {
    std::string node, file;
    bool dry_run = false;
  };
  ReplayReport(std::ostream& out, bool json, const Of& of);

  void add(const Replayed& one);
  // `damaged`: half lines that were passed over. `stopped`: by a signal.
  void finish(std::size_t unanswered, std::size_t damaged, bool stopped);
  // False where the output can't be written any more.
  [[nodiscard]] bool is_heard() const { return out_->good(); }
  [[nodiscard]] std::size_t decisions() const { return decisions_; }
  [[nodiscard]] std::size_t differing() const { return differing_; }

 private:
  std::ostream* out_;
  bool json_;
  std::size_t decisions_ = 0;
  std::size_t agreeing_ = 0;
  std::size_t differing_ = 0;
  std::size_t not_compared_ = 0;
};

}  // namespace osml::cli
