#include "reply.h"

#include <algorithm>
#include <charconv>

namespace osml::loadgen {

bool parse_count(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

LineReader::Step LineReader::skip(std::uint64_t payload, bool last) {
  if (payload > kMaxPayload) return ended(Outcome::Broken);
  return {Outcome::Incomplete, payload, last};
}

void LineReader::restart() {
  line_.clear();
  payload_left_ = 0;
  last_ = false;
  on_restart();
}

Outcome LineReader::finish(Outcome outcome, bool bytes_left) {
  if (bytes_left && outcome != Outcome::Broken) outcome = Outcome::Broken;
  line_.clear();
  payload_left_ = 0;
  last_ = false;
  return outcome;
}

Outcome LineReader::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (payload_left_ > 0) {
      const auto taken = std::min<std::uint64_t>(payload_left_, bytes.size());
      payload_left_ -= taken;
      bytes.remove_prefix(taken);
      if (payload_left_ == 0 && last_) return finish(on_last_payload(), !bytes.empty());
      continue;
    }
    const auto newline = bytes.find('\n');
    const auto taken = newline == std::string_view::npos ? bytes.size() : newline + 1;
    if (line_.size() + taken > kMaxLine) return finish(Outcome::Broken, false);
    line_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (newline == std::string_view::npos) break;
    if (line_.size() < 2 || line_[line_.size() - 2] != '\r') return finish(Outcome::Broken, false);
    const Step step = on_line(std::string_view(line_).substr(0, line_.size() - 2));
    line_.clear();
    if (step.outcome != Outcome::Incomplete) return finish(step.outcome, !bytes.empty());
    payload_left_ = step.payload;
    last_ = step.last;
    if (last_ && payload_left_ == 0) return finish(on_last_payload(), !bytes.empty());
  }
  return Outcome::Incomplete;
}

}  // namespace osml::loadgen
