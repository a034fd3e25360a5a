// Reads one reply at a time from a byte stream that arrives in pieces of any size. Bodies are counted, not kept.
// Three protocols are lines and counted payloads (LineReader): what a line means is the protocol's part.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace osml::loadgen {

enum class Outcome {
  Incomplete,  // more bytes are needed
  Complete,    // a good reply
  Refused,     // a well-formed reply that says no (error line, HTTP status other than 200)
  Broken,      // not this protocol, or more than any sane server sends: the connection must be closed
};

class ReplyReader {
 public:
  static constexpr std::size_t kMaxLine = 8192;
  static constexpr std::uint64_t kMaxPayload = std::uint64_t{1} << 26U;

  ReplyReader() = default;
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;
  virtual ~ReplyReader() = default;

  // A new connection: true where the server speaks before the first request.
  virtual bool begin_greeting() { return false; }
  // Bytes of the greeting; what has to be sent back is appended to `answer`. Complete: requests may follow.
  virtual Outcome greet(std::string_view /*bytes*/, std::string& /*answer*/) { return Outcome::Broken; }
  // Bytes after a finished reply were never asked for (there is no pipelining), so they are Broken too.
  virtual Outcome feed(std::string_view bytes) = 0;
  // Forget a reply that was half read, before the next one or on a new connection.
  virtual void restart() = 0;
  // True where the server announced that it closes the connection after this reply.
  [[nodiscard]] virtual bool closes() const { return false; }
};

class LineReader : public ReplyReader {
 public:
  Outcome feed(std::string_view bytes) override;
  void restart() override;

 protected:
  struct Step {
    Outcome outcome = Outcome::Incomplete;
    std::uint64_t payload = 0;  // bytes to skip before the next line
    bool last = false;          // the reply ends with the payload; no line follows it
  };
  static Step ended(Outcome outcome) { return {outcome, 0, false}; }
  static Step more() { return {}; }
  // Says Broken instead where the size is beyond kMaxPayload.
  static Step skip(std::uint64_t payload, bool last = false);

  // One line without its CR LF.
  virtual Step on_line(std::string_view line) = 0;
  // Called when a payload that ends a reply (Step::last) has passed.
  virtual Outcome on_last_payload() { return Outcome::Complete; }
  virtual void on_restart() {}

 private:
  Outcome finish(Outcome outcome, bool bytes_left);

  std::string line_;
  std::uint64_t payload_left_ = 0;
  bool last_ = false;
};

// Decimal digits only, no sign, no blanks; false where it is anything else or does not fit.
bool parse_count(std::string_view text, std::uint64_t& value);

}  // namespace osml::loadgen
