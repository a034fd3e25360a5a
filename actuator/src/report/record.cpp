#include "report/record.h"

#include <spdlog/spdlog.h>

#include "domain/json.h"

namespace osml {

Answer Recorder::ask(const Observation& observation) {
  Answer answer = source_->ask(observation);
  if (broken_) return answer;
  std::string line =
      R"({"observation":)" + dump(observation) + R"(,"decision":)" + (answer ? answer.text() : "null") + "}";
  // The server may have indented its answer, but a line is a line; a raw newline cannot stand inside a JSON string.
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  if (const Status written = lines_.append(line); !written) {
    spdlog::warn("--record: {}; the agent writes no more lines to this file", written.error().message);
    broken_ = true;
  }
  return answer;
}

}  // namespace osml
