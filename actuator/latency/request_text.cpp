#include "request_text.h"

#include <optional>

#include "base/number.h"

namespace osml::latency {

namespace {

constexpr double longest_ms = 86'400'000;
constexpr double least_rate = 1e-6;

std::optional<double> latency_of(std::string_view number, double unit_ms) {
  const auto value = parse_double(number);
  if (!value || *value < 0 || *value * unit_ms > longest_ms) return std::nullopt;
  return *value * unit_ms;
}

bool ends_a_word(char letter) {
  return letter == ' ' || letter == '\t' || letter == '"' || letter == ',' || letter == ';' || letter == '|' ||
         letter == '\r' || letter == '\0';
}

// The number after the first "name=" that begins a word.
std::optional<double> in_log(std::string_view line, const Format& format) {
  const std::string key = format.name + "=";
  for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    if (at > 0 && !ends_a_word(line[at - 1])) continue;
    std::string_view number = line.substr(at + key.size());
    std::size_t length = 0;
    while (length < number.size() && !ends_a_word(number[length])) ++length;
    return latency_of(number.substr(0, length), format.unit_ms);
  }
  return std::nullopt;
}

std::string_view cut(std::string_view& rest, char at) {
  const std::size_t end = rest.find(at);
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

std::optional<Request> in_statsd(std::string_view line, const Format& format) {
  const std::size_t colon = line.rfind(':', line.find('|'));
  if (colon == std::string_view::npos || line.substr(0, colon) != format.name) return std::nullopt;
  std::string_view rest = line.substr(colon + 1);
  const std::string_view value = cut(rest, '|');
  const std::string_view type = cut(rest, '|');
  if (type != "ms" && type != "h" && type != "d") return std::nullopt;
  const auto latency_ms = latency_of(value, type == "ms" ? 1.0 : format.unit_ms);
  if (!latency_ms) return std::nullopt;
  Request found{*latency_ms, 1};
  while (!rest.empty()) {
    const std::string_view part = cut(rest, '|');
    if (part.empty() || part.front() != '@') continue;
    const auto rate = parse_double(part.substr(1));
    if (!rate || *rate < least_rate || *rate > 1) return std::nullopt;
    found.count = 1 / *rate;
  }
  return found;
}

}  // namespace

bool read_requests(std::string_view datagram, const Format& format, const Take& take) {
  bool any = false;
  while (!datagram.empty()) {
    std::string_view line = cut(datagram, '\n');
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (format.statsd) {
      if (const auto found = in_statsd(line, format)) {
        take(*found);
        any = true;
      }
    } else if (const auto latency_ms = in_log(line, format)) {
      take({*latency_ms, 1});
      any = true;
    }
  }
  return any;
}

}  // namespace osml::latency
