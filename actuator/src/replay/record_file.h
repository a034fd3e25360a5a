// What `run --record FILE` wrote (report/record.h), read back for `replay`: one interval a line, streamed, because a
// night of them is larger than the agent wants to be. The file comes from outside and is checked as such.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "config/config.h"
#include "domain/types.h"

namespace osml {

// Both ends belong to it; by the number of the observation. A file that several runs wrote begins anew with each.
struct SeqRange {
  std::optional<std::uint64_t> from, to;
  [[nodiscard]] bool holds(std::uint64_t seq) const { return (!from || seq >= *from) && (!to || seq <= *to); }
};

struct RecordedDecision {
  std::size_t line = 0;
  double time_s = 0;  // node time of the observation
  Decision decision;
  std::optional<Outcome> outcome;  // as the next observation reports it; none where none followed
};

class RecordFile {
 public:
  // `config` says which node and services the record must be of; it must outlive the file.
  static Result<RecordFile> open(const fs::path& path, const Config& config, SeqRange range);

  // The next decision in the range; none at the end. Intervals without an answer are passed over and counted. The error
  // (Input) names file and line.
  Result<std::optional<RecordedDecision>> next();
  [[nodiscard]] std::size_t unanswered() const { return unanswered_; }
  // Half lines that were passed over: the recorder ends what a power cut left, and goes on behind it.
  [[nodiscard]] std::size_t damaged() const { return damaged_; }

 private:
  struct Line {
    std::size_t number = 0;
    std::uint64_t seq = 0;
    double time_s = 0;
    std::optional<Decision> decision;  // read only where it is in the range
    std::optional<Outcome> outcome;    // of the decision before; none behind a half line
  };

  RecordFile(fs::path path, std::ifstream stream, const Config& config, SeqRange range);
  Result<std::optional<Line>> read_line();
  Result<std::optional<std::string_view>> read_text();
  [[nodiscard]] Result<Line> parse(const nlohmann::json& document) const;
  [[nodiscard]] std::optional<std::string> stranger(const Decision& decision) const;

  fs::path path_;
  std::ifstream stream_;
  std::vector<char> text_;  // of one line, of bounded length: a file may have no line end
  const Config* config_;
  SeqRange range_;
  std::size_t number_ = 0;
  std::size_t unanswered_ = 0;
  std::size_t damaged_ = 0;
  std::optional<Line> ahead_;
};

// Reads the whole file once, so that nothing is applied of a record that is broken further down. The error has one
// sentence for each wrong line, at most twenty; the value is the number of decisions in the range, which is not 0.
Result<std::size_t> check_record(const fs::path& path, const Config& config, SeqRange range);

}  // namespace osml
