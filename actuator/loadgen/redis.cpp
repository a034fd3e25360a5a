// Redis, protocol RESP2: https://redis.io/docs/latest/develop/reference/protocol-spec/
#include "workload.h"

namespace osml::loadgen {
namespace {

class RedisReader final : public LineReader {
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
    const auto draw = random.below(10);
    if (draw < 3) {
      begin(1 + kVisitorKeys);
      append_bulk("PFCOUNT");
      for (unsigned day = 0; day < kVisitorKeys; ++day) append_bulk("visitors:" + std::to_string(day));
    } else if (draw < 4) {
      begin(3);
      append_bulk("SET");
      append_bulk(key);
      append_bulk(value_);
    } else {
      begin(2);
      append_bulk("GET");
      append_bulk(key);
    }
    return request_;
  }

  [[nodiscard]] std::unique_ptr<ReplyReader> make_reader() const override { return std::make_unique<RedisReader>(); }

 private:
  static constexpr unsigned kVisitorKeys = 7;

  void begin(unsigned parts) { request_ = "*" + std::to_string(parts) + "\r\n"; }
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
