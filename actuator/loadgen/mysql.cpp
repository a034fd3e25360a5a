// MySQL's protocol 4.1, as MariaDB speaks it: https://mariadb.com/kb/en/clientserver-protocol/. Packets of a length of
// three bytes, a sequence number and a payload. No password and no TLS: the server of a trial checks no rights.
#include <algorithm>

#include "workload.h"

namespace osml::loadgen {
namespace {

constexpr std::size_t kHeader = 4;
constexpr std::size_t kKept = 16;  // of a payload: its first bytes say what it is
constexpr unsigned char kOk = 0x00;
constexpr unsigned char kEof = 0xfe;
constexpr unsigned char kError = 0xff;
constexpr unsigned char kMostColumns = 0xfa;  // greater first bytes mean something else
constexpr std::size_t kEofSize = 9;           // an EOF packet is shorter; a row that begins with 0xfe is longer
constexpr std::uint32_t kLongest = 0xffffff;  // a payload of this size goes on in the next packet

std::string packet(std::string_view payload, unsigned char sequence) {
  std::string bytes;
  for (unsigned shift = 0; shift < 24; shift += 8) {
    bytes += static_cast<char>((payload.size() >> shift) & 0xffU);
  }
  return (bytes += static_cast<char>(sequence)).append(payload);
}

// Answer to the server's handshake: capabilities, largest packet, character set, user, no password, database, plug-in.
std::string log_in(unsigned char sequence) {
  constexpr std::uint32_t kCapabilities = 0x1 | 0x8 | 0x200 | 0x8000 | 0x80000;
  std::string payload;
  for (unsigned shift = 0; shift < 32; shift += 8) payload += static_cast<char>((kCapabilities >> shift) & 0xffU);
  payload.append(std::string_view("\0\0\0\1", 4)).append(1, '\x21').append(23, '\0');
  payload.append(std::string_view("osml\0\0osml\0mysql_native_password\0", 33));
  return packet(payload, sequence);
}

class MysqlReader final : public ReplyReader {
 public:
  bool begin_greeting() override {
    logged_in_ = false;
    next_packet();
    sequence_ = 0;
    return true;
  }

  Outcome greet(std::string_view bytes, std::string& answer) override {
    while (!bytes.empty()) {
      if (!take(bytes)) return Outcome::Broken;
      if (!whole()) continue;
      const unsigned char first = kept_.empty() ? kError : static_cast<unsigned char>(kept_.front());
      next_packet();
      if (!bytes.empty()) return Outcome::Broken;
      if (logged_in_) return first == kOk ? Outcome::Complete : Outcome::Broken;
      if (first != 10) return Outcome::Broken;  // the version of the protocol
      answer += log_in(sequence_++);
      logged_in_ = true;
    }
    return Outcome::Incomplete;
  }

  Outcome feed(std::string_view bytes) override {
    while (!bytes.empty()) {
      if (!take(bytes)) return Outcome::Broken;
      if (!whole()) continue;
      const Outcome outcome = on_packet();
      next_packet();
      if (outcome != Outcome::Incomplete) return bytes.empty() ? outcome : Outcome::Broken;
    }
    return Outcome::Incomplete;
  }

  void restart() override {
    part_ = Part::First;
    columns_ = 0;
    total_ = 0;
    sequence_ = 1;  // the request was number 0
    next_packet();
  }

 private:
  enum class Part { First, Columns, EndOfColumns, Rows };

  // Moves bytes of one packet out of `bytes`; false where they are none of this protocol.
  bool take(std::string_view& bytes) {
    while (header_.size() < kHeader && !bytes.empty()) {
      header_ += bytes.front();
      bytes.remove_prefix(1);
      if (header_.size() == kHeader && !on_header()) return false;
    }
    const auto taken = std::min<std::size_t>(left_, bytes.size());
    kept_.append(bytes.substr(0, std::min(taken, kKept - kept_.size())));
    left_ -= static_cast<std::uint32_t>(taken);
    bytes.remove_prefix(taken);
    return true;
  }

  bool on_header() {
    for (unsigned i = 0; i < 3; ++i) left_ |= std::uint32_t{static_cast<unsigned char>(header_[i])} << (8 * i);
    size_ = left_;
    total_ += size_;
    return size_ > 0 && size_ < kLongest && total_ <= kMaxPayload &&
           static_cast<unsigned char>(header_[3]) == sequence_++;
  }

  [[nodiscard]] bool whole() const { return header_.size() == kHeader && left_ == 0; }

  void next_packet() {
    header_.clear();
    kept_.clear();
    left_ = 0;
  }

  Outcome on_packet() {
    const auto first = static_cast<unsigned char>(kept_.front());
    if (first == kError) return Outcome::Refused;
    const bool end = first == kEof && size_ < kEofSize;
    switch (part_) {
      case Part::First:
        if (first == kOk) return Outcome::Complete;
        if (first > kMostColumns || size_ != 1) return Outcome::Broken;
        columns_ = first;
        part_ = Part::Columns;
        return Outcome::Incomplete;
      case Part::Columns:
        if (end) return Outcome::Broken;
        if (--columns_ == 0) part_ = Part::EndOfColumns;
        return Outcome::Incomplete;
      case Part::EndOfColumns:
        part_ = Part::Rows;
        return end ? Outcome::Incomplete : Outcome::Broken;
      case Part::Rows:
        break;
    }
    return end ? Outcome::Complete : Outcome::Incomplete;
  }

  Part part_ = Part::First;
  unsigned columns_ = 0;
  unsigned char sequence_ = 0;
  bool logged_in_ = false;
  std::string header_;
  std::string kept_;
  std::uint32_t left_ = 0;
  std::uint32_t size_ = 0;
  std::uint64_t total_ = 0;
};

class MysqlWorkload final : public Workload {
 public:
  explicit MysqlWorkload(const std::vector<std::string>& statements) {
    constexpr char kQuery = 3;  // COM_QUERY
    for (const auto& statement : statements) requests_.push_back(packet(kQuery + statement, 0));
  }

  std::string_view next_request(Random& random) override { return requests_[random.below(requests_.size())]; }
  [[nodiscard]] std::unique_ptr<ReplyReader> make_reader() const override { return std::make_unique<MysqlReader>(); }

 private:
  std::vector<std::string> requests_;
};

}  // namespace

std::unique_ptr<Workload> make_mysql_workload(const std::vector<std::string>& statements) {
  return std::make_unique<MysqlWorkload>(statements);
}

}  // namespace osml::loadgen
