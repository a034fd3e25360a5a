// Redis, protocol RESP2: https://redis.io/docs/latest/develop/reference/protocol-spec/
#include "workload.h"

namespace osml::loadgen {
namespace {

class RedisReader final : public ReplyReader {
 protected:
  Step on_line(std::string_view line) override {
    if (in_bulk_) {  // the empty line behind a bulk string
      in_bulk_ = false;
      return ended(line.empty() ? Outcome::Complete : Outcome::Broken);
    }
    if (line.empty()) return ended(Outcome::Broken);
    const std::string_view rest = line.substr(1);
    switch (line.front()) {
      case '+':
      case ':':
        return ended(Outcome::Complete);
      case '-':
        return ended(Outcome::Refused);
      case '$':
        return bulk(rest);
      default:
        return ended(Outcome::Broken);
    }
  }
  void on_restart() override { in_bulk_ = false; }

 private:
  Step bulk(std::string_view size) {
    if (size == "-1") return ended(Outcome::Complete);  // a key that does not exist is an answer
    std::uint64_t bytes = 0;
    if (!parse_count(size, bytes)) return ended(Outcome::Broken);
    in_bulk_ = true;
    return skip(bytes);
  }

  bool in_bulk_ = false;
};

class RedisWorkload final : public Workload {
 public:
  RedisWorkload(unsigned keys, unsigned value_bytes) : keys_(keys), value_(value_bytes, 'v') {}

  std::string_view next_request(Random& random) override {
    const std::string key = "key:" + std::to_string(random.below(keys_));
    const bool write = random.below(10) == 0;
    request_ = write ? "*3\r\n$3\r\nSET\r\n" : "*2\r\n$3\r\nGET\r\n";
    append_bulk(key);
    if (write) append_bulk(value_);
    return request_;
  }

  [[nodiscard]] std::unique_ptr<ReplyReader> make_reader() const override { return std::make_unique<RedisReader>(); }

 private:
  void append_bulk(std::string_view text) {
    request_.append("$").append(std::to_string(text.size())).append("\r\n").append(text).append("\r\n");
  }

  unsigned keys_;
  std::string value_;
  std::string request_;
};

}  // namespace

std::unique_ptr<Workload> make_redis_workload(unsigned keys, unsigned value_bytes) {
  return std::make_unique<RedisWorkload>(keys, value_bytes);
}

}  // namespace osml::loadgen
