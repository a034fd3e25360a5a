// What a replay says: a line for each decision as it comes, or one JSON document at the end.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "replay/replay.h"

namespace osml::cli {

class ReplayReport {
 public:
  ReplayReport(std::ostream& out, bool json) : out_(&out), json_(json) {}

  void add(const Replayed& one);
  struct End {
    std::string node, file;
    bool dry_run = false;
    std::size_t unanswered = 0;
    bool stopped = false;  // by a signal
  };
  void finish(const End& end);
  [[nodiscard]] std::size_t decisions() const { return decisions_; }
  [[nodiscard]] std::size_t differing() const { return differing_; }

 private:
  std::ostream* out_;
  bool json_;
  std::size_t decisions_ = 0;
  std::size_t agreeing_ = 0;
  std::size_t differing_ = 0;
  std::size_t not_compared_ = 0;
  nlohmann::ordered_json list_ = nlohmann::ordered_json::array();
};

}  // namespace osml::cli
