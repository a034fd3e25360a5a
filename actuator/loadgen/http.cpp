// HTTP/1.1 (RFC 9112) as far as a GET of a file needs it, whether the server knows its length (Content-Length) or makes
// it up on the way (chunks, as nginx does when it compresses).
#include <algorithm>
#include <cctype>
#include <charconv>

#include "workload.h"

namespace osml::loadgen {
namespace {

bool equal_ignoring_case(std::string_view left, std::string_view right) {
  return std::ranges::equal(left, right, [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

class HttpReader final : public LineReader {
 public:
  [[nodiscard]] bool closes() const override { return closes_; }

 protected:
  static constexpr unsigned kMaxHeaders = 64;
  enum class Part { Status, Headers, ChunkSize, ChunkEnd, Trailer };

  Step on_line(std::string_view line) override {
    switch (part_) {
      case Part::Status:
        return status_line(line);
      case Part::Headers:
        if (!line.empty()) return ++headers_ > kMaxHeaders ? ended(Outcome::Broken) : header(line);
        return body();
      case Part::ChunkSize:
        return chunk(line);
      case Part::ChunkEnd:
        part_ = Part::ChunkSize;
        return line.empty() ? more() : ended(Outcome::Broken);
      case Part::Trailer:
        break;
    }
    if (line.empty()) return ended(on_last_payload());
    return ++headers_ > kMaxHeaders ? ended(Outcome::Broken) : more();
  }
  Outcome on_last_payload() override { return status_ == 200 ? Outcome::Complete : Outcome::Refused; }
  void on_restart() override {
    part_ = Part::Status;
    status_ = 0;
    headers_ = 0;
    total_ = 0;
    has_length_ = false;
    chunked_ = false;
    closes_ = false;
  }

 private:
  // "HTTP/1.1 200 OK"
  Step status_line(std::string_view line) {
    std::uint64_t status = 0;
    if (line.size() < 12 || !line.starts_with("HTTP/1.") || line[8] != ' ' || !parse_count(line.substr(9, 3), status) ||
        status < 200 || status > 599) {
      return ended(Outcome::Broken);
    }
    status_ = status;
    part_ = Part::Headers;
    return more();
  }

  Step header(std::string_view line) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return ended(Outcome::Broken);
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (equal_ignoring_case(name, "content-length")) {
      if (has_length_ || !parse_count(value, length_)) return ended(Outcome::Broken);
      has_length_ = true;
    } else if (equal_ignoring_case(name, "transfer-encoding")) {
      if (!equal_ignoring_case(value, "chunked")) return ended(Outcome::Broken);
      chunked_ = true;
    } else if (equal_ignoring_case(name, "connection") && equal_ignoring_case(value, "close")) {
      closes_ = true;
    }
    return more();
  }

  // Both lengths at once is how requests are smuggled, neither means "until the end of the connection".
  Step body() {
    if (has_length_ == chunked_) return ended(Outcome::Broken);
    if (has_length_) return skip(length_, true);
    part_ = Part::ChunkSize;
    return more();
  }

  // "<size in hexadecimal>[;extension]"
  Step chunk(std::string_view line) {
    const std::string_view digits = line.substr(0, line.find(';'));
    std::uint64_t size = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size, 16);
    if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) return ended(Outcome::Broken);
    total_ += std::min(size, kMaxPayload + 1);
    if (total_ > kMaxPayload) return ended(Outcome::Broken);
    part_ = size == 0 ? Part::Trailer : Part::ChunkEnd;
    return size == 0 ? more() : skip(size);
  }

  Part part_ = Part::Status;
  std::uint64_t status_ = 0;
  std::uint64_t length_ = 0;
  std::uint64_t total_ = 0;  // of all chunks
  unsigned headers_ = 0;
  bool has_length_ = false;
  bool chunked_ = false;
  bool closes_ = false;
};

class HttpWorkload final : public Workload {
 public:
  HttpWorkload(const std::string& host, const std::vector<std::string>& paths) {
    for (const auto& path : paths) requests_.push_back(request_for(path, host));
  }

  std::string_view next_request(Random& random) override { return requests_[random.below(requests_.size())]; }

  [[nodiscard]] std::unique_ptr<ReplyReader> make_reader() const override { return std::make_unique<HttpReader>(); }

 private:
  static std::string request_for(const std::string& path, const std::string& host) {
    return "GET " + path + " HTTP/1.1\r\nHost: " + host +
           "\r\nUser-Agent: osml-loadgen\r\nAccept-Encoding: gzip\r\n\r\n";
  }

  std::vector<std::string> requests_;
};

}  // namespace

std::unique_ptr<Workload> make_http_workload(const std::string& host, const std::vector<std::string>& paths) {
  return std::make_unique<HttpWorkload>(host, paths);
}

std::unique_ptr<Workload> make_workload(Protocol protocol, const std::string& host,
                                        const std::vector<std::string>& requests) {
  constexpr unsigned kKeys = 1000;
  constexpr unsigned kValueBytes = 512;
  switch (protocol) {
    case Protocol::Redis:
      return make_redis_workload(kKeys, kValueBytes);
    case Protocol::Memcached:
      return make_memcached_workload(kKeys, kValueBytes);
    case Protocol::Mysql:
      return make_mysql_workload(requests);
    case Protocol::Http:
      break;
  }
  // The large one first: this is the order that the coin of earlier versions had.
  return make_http_workload(host, requests.empty() ? std::vector<std::string>{"/large", "/small"} : requests);
}

}  // namespace osml::loadgen
