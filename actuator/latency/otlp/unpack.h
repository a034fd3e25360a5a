// Bodies of requests that are compressed.
#pragma once

#include <string>
#include <string_view>

namespace osml::latency::otlp {

enum class Unpacked { Whole, Broken, TooLong };

// gzip, or the zlib format that HTTP calls deflate. `text` has at most `most` bytes, whatever the packed ones say.
Unpacked unpack(std::string_view packed, std::size_t most, std::string& text);

}  // namespace osml::latency::otlp
