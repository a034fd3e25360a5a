// memcached, text protocol: https://github.com/memcached/memcached/blob/master/doc/protocol.txt
#include "workload.h"

namespace osml::loadgen {
namespace {

class MemcachedReader final : public LineReader {
 protected:
  Step on_line(std::string_view line) override {
    if (after_value_) {  // the rest of the line that a value stands on
      after_value_ = false;
      return line.empty() ? more() : ended(Outcome::Broken);
    }
    if (line == "END" || line == "STORED") return ended(Outcome::Complete);
    if (line.starts_with("VALUE ")) return value(line.substr(6));
    const bool refused = line == "ERROR" || line == "NOT_STORED" || line.starts_with("CLIENT_ERROR ") ||
                         line.starts_with("SERVER_ERROR ");
    return ended(refused ? Outcome::Refused : Outcome::Broken);
  }
  void on_restart() override { after_value_ = false; }

 private:
  // "<key> <flags> <bytes>"
  Step value(std::string_view header) {
    const auto blank = header.rfind(' ');
    std::uint64_t bytes = 0;
    if (blank == std::string_view::npos || !parse_count(header.substr(blank + 1), bytes)) {
      return ended(Outcome::Broken);
    }
    after_value_ = true;
    return skip(bytes);
  }

  bool after_value_ = false;
};

class MemcachedWorkload final : public Workload {
 public:
  MemcachedWorkload(unsigned keys, unsigned value_bytes) : keys_(keys), value_(value_bytes, 'v') {}

  std::string_view next_request(Random& random) override {
    const std::string key = "key:" + std::to_string(random.below(keys_));
    if (random.below(10) == 0) {
      request_ = "set " + key + " 0 0 " + std::to_string(value_.size()) + "\r\n" + value_ + "\r\n";
    } else {
      request_ = "get " + key + "\r\n";
    }
    return request_;
  }

  [[nodiscard]] std::unique_ptr<ReplyReader> make_reader() const override {
    return std::make_unique<MemcachedReader>();
  }

 private:
  unsigned keys_;
  std::string value_;
  std::string request_;
};

}  // namespace

std::unique_ptr<Workload> make_memcached_workload(unsigned keys, unsigned value_bytes) {
  return std::make_unique<MemcachedWorkload>(keys, value_bytes);
}

}  // namespace osml::loadgen
