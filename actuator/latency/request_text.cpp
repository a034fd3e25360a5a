#include "request_text.h"

#include <optional>
#include <vector>

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

std::string_view first_word(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && !ends_a_word(text[length])) ++length;
  return text.substr(0, length);
}

// Seconds with milliseconds, or "-" where nginx has none.
bool is_nginx_time(std::string_view word) {
  constexpr std::size_t dot_and_decimals = 4;
  if (word == "-") return true;
  return word.size() > dot_and_decimals && word.find('.') == word.size() - dot_and_decimals &&
         word.find_first_not_of("0123456789.") == std::string_view::npos;
}

// The rest behind the separator of nginx's lists; none where the text goes on with something else.
std::optional<std::string_view> next_in_list(std::string_view text) {
  for (const std::string_view separator : {", ", " : "}) {
    if (text.starts_with(separator) && is_nginx_time(first_word(text.substr(separator.size())))) {
      return text.substr(separator.size());
    }
  }
  return std::nullopt;
}

// The number that a text begins with. Where nginx asked several servers it writes a list, "0.001, 5.000 : 0.020": the
// client waited for their sum.
std::optional<double> leading_latency(std::string_view text, double unit_ms) {
  std::string_view word = first_word(text);
  if (!is_nginx_time(word)) return latency_of(word, unit_ms);
  std::optional<double> sum;
  for (std::optional<std::string_view> rest = text; rest; rest = next_in_list(rest->substr(word.size()))) {
    word = first_word(*rest);
    if (word == "-") continue;
    const auto one = latency_of(word, unit_ms);
    if (!one) return std::nullopt;
    sum = sum.value_or(0) + *one;
  }
  return sum && *sum <= longest_ms ? sum : std::nullopt;
}

// What comes after the first "name=" that begins a word.
std::optional<std::string_view> after_key(std::string_view line, const Format& format) {
  const std::string key = format.name + "=";
  for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    if (at > 0 && !ends_a_word(line[at - 1])) continue;
    return line.substr(at + key.size());
  }
  return std::nullopt;
}

std::string_view cut(std::string_view& rest, char at) {
  const std::size_t end = rest.find(at);
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

// How many requests one value stands for; none where the line says something else.
std::optional<double> requests_of(std::string_view rest) {
  double requests = 1;
  while (!rest.empty()) {
    const std::string_view part = cut(rest, '|');
    if (part.empty() || part.front() != '@') continue;
    const auto rate = parse_double(part.substr(1));
    if (!rate || *rate < least_rate || *rate > 1) return std::nullopt;
    requests = 1 / *rate;
  }
  return requests;
}

// NAME:VALUE[:VALUE...]|ms[|@RATE][|#...]
std::vector<Request> in_statsd(std::string_view line, const Format& format) {
  std::vector<Request> found;
  const std::string key = format.name + ":";
  if (!line.starts_with(key)) return found;
  std::string_view rest = line.substr(key.size());
  std::string_view values = cut(rest, '|');
  const std::string_view type = cut(rest, '|');
  if (type != "ms" && type != "h" && type != "d") return found;
  const auto requests = requests_of(rest);
  while (requests && !values.empty()) {
    const auto latency_ms = latency_of(cut(values, ':'), type == "ms" ? 1.0 : format.unit_ms);
    if (latency_ms) found.push_back({*latency_ms, *requests});
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
      for (const Request& found : in_statsd(line, format)) {
        take(found);
        any = true;
      }
    } else if (const auto text = after_key(line, format)) {
      const auto latency_ms = leading_latency(*text, format.unit_ms);
      if (latency_ms) take({*latency_ms, 1});
      any = any || latency_ms;
    }
  }
  return any;
}

bool has_no_answer(std::string_view line, const Format& format) {
  const auto text = format.statsd ? std::nullopt : after_key(line, format);
  return text && text->starts_with('-');
}

}  // namespace osml::latency
