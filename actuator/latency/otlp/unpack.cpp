#include "otlp/unpack.h"

#include <zlib.h>

#include <algorithm>
#include <array>

namespace osml::latency::otlp {

namespace {

// 15: the largest window there is; 32: either of both headers.
constexpr int any_header = 15 + 32;

class Inflater {
 public:
  explicit Inflater(std::string_view packed) {
    // zlib reads only, and its type says so where ZLIB_CONST is defined: not in all versions.
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));  // NOLINT
    stream_.avail_in = static_cast<uInt>(packed.size());
    good_ = inflateInit2(&stream_, any_header) == Z_OK;
  }
  ~Inflater() { (void)inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  Unpacked run(std::size_t most, std::string& text) {
    std::array<char, 16384> chunk{};
    int last = Z_OK;
    while (good_ && last != Z_STREAM_END) {
      stream_.next_out = reinterpret_cast<Bytef*>(chunk.data());  // NOLINT
      stream_.avail_out = static_cast<uInt>(chunk.size());
      last = inflate(&stream_, Z_NO_FLUSH);
      good_ = last == Z_OK || last == Z_STREAM_END;
      const std::size_t made = chunk.size() - stream_.avail_out;
      if (text.size() + made > most) return Unpacked::TooLong;
      text.append(chunk.data(), made);
    }
    return good_ && stream_.avail_in == 0 ? Unpacked::Whole : Unpacked::Broken;
  }

 private:
  z_stream stream_{};
  bool good_ = false;
};

}  // namespace

Unpacked unpack(std::string_view packed, std::size_t most, std::string& text) {
  text.clear();
  return Inflater(packed).run(most, text);
}

}  // namespace osml::latency::otlp
