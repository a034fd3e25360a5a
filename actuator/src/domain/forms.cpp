#include "domain/forms.h"

#include <algorithm>

#include "base/cpuset.h"

namespace osml {

namespace {

bool is_hex_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }
bool is_alnum(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_part_of_label(std::string_view text) {
  constexpr std::size_t longest = 63;
  return !text.empty() && text.size() <= longest && is_alnum(text.front()) && is_alnum(text.back()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_alnum(c) || c == '_' || c == '.' || c == '-'; });
}

}  // namespace

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > 63 || !is_alnum(text.front())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return is_alnum(c) || c == '_' || c == '.' || c == '-'; });
}

bool is_name_in_dns(std::string_view text) {
  const auto in_dns = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '.'; };
  constexpr std::size_t longest = 253;
  return !text.empty() && text.size() <= longest && is_alnum(text.front()) && is_alnum(text.back()) &&
         std::all_of(text.begin(), text.end(), in_dns);
}

bool is_namespace(std::string_view text) {
  constexpr std::size_t longest = 63;
  return is_name_in_dns(text) && text.size() <= longest && text.find('.') == std::string_view::npos;
}

bool is_label_key(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos) return is_part_of_label(text);
  return is_name_in_dns(text.substr(0, slash)) && is_part_of_label(text.substr(slash + 1));
}

bool is_label_value(std::string_view text) { return text.empty() || is_part_of_label(text); }

bool is_metric_label(std::string_view text) {
  return !text.empty() && !(text.front() >= '0' && text.front() <= '9') &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_alnum(c) || c == '_'; });
}

bool is_cpu_list(std::string_view text) {
  const auto cpus = parse_cpulist(text);
  return cpus && !cpus->empty();
}

bool is_hex_mask(std::string_view text) {
  return !text.empty() && text.size() <= 16 && std::all_of(text.begin(), text.end(), is_hex_digit);
}

bool is_pod_uid(std::string_view text) {
  constexpr std::size_t longest = 64;
  return !text.empty() && text.size() <= longest &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_hex_digit(c) || c == '-'; });
}

bool is_container_id(std::string_view text) {
  constexpr std::size_t digits = 64;
  return text.size() == digits && std::all_of(text.begin(), text.end(), is_hex_digit);
}

}  // namespace osml
