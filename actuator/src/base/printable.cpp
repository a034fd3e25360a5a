#include "base/printable.h"

namespace osml {

namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  constexpr unsigned char first_printable = 0x20;
  constexpr unsigned char del = 0x7f;
  return byte < first_printable || byte == del;
}

// The second byte of a control character in UTF-8.
bool ends_control(char before, char c) {
  const auto byte = static_cast<unsigned char>(c);
  return static_cast<unsigned char>(before) == 0xc2 && byte >= 0x80 && byte < 0xa0;
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

}  // namespace

std::string printable(std::string_view text, std::size_t longest) {
  std::size_t end = text.size();
  if (end > longest) {
    end = longest;
    while (end > 0 && continues(text[end])) --end;  // not in the middle of a character
  }
  std::string shown;
  for (std::size_t at = 0; at < end; ++at) {
    if (is_control(text[at])) {
      shown += '?';
    } else if (at > 0 && ends_control(text[at - 1], text[at])) {
      shown.back() = '?';
    } else {
      shown += text[at];
    }
  }
  return end < text.size() ? shown + "..." : shown;
}

}  // namespace osml
